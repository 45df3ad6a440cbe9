package mountd

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source/bucket"
)

// budgets are memory in bytes that no option says; 0 is the default.
type budgets struct {
	work    int64 // sources and pixels that are in work
	fetched int64 // what comes from a bucket, until it is written to the disk
	blocks  int64 // blocks of open objects of a bucket
}

// fitMemory decides how much memory the mount may use. Where cgroups limit what this process
// uses together with others, the readers among them, each budget is an eighth of that at most,
// and the garbage collector works harder from a half on: left to itself it lets the heap grow
// to twice what is in use.
func (c *Config) fitMemory(log *slog.Logger) budgets {
	limit := int64(math.MaxInt64)
	if groups, err := cgroup.Here(); err == nil {
		if least, limited := groups.MemoryLimit(); limited {
			limit = least
		}
	}
	asked := c.Cache.Bytes >= 0
	if !asked {
		c.Cache.Bytes = min(serve.DefaultCacheBytes, limit/8)
	}
	if limit == math.MaxInt64 {
		return budgets{}
	}
	// Batches have as much as samples.
	samples, batches := c.Cache.Bytes, max(c.Cache.Bytes, epoch.MinBudget)
	if asked && samples+batches > limit/2 {
		log.Warn("--cache-bytes is much for the memory that a cgroup allows, which samples, batches and readers share: the system may end the daemon",
			"cgroup", limit, "samples", samples, "batches", batches)
	} else {
		log.Info("a cgroup limits memory", "cgroup", limit, "samples", samples, "batches", batches)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(limit/2, min(samples+batches, limit)))
	}
	return budgets{
		work:    min(serve.DefaultWorkBytes, limit/8),
		fetched: min(blockcache.DefaultMemoryBytes, limit/8),
		blocks:  min(bucket.DefaultMemoryBytes, limit/8),
	}
}
