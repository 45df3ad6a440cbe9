package mountd

import (
	"cmp"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/mixer"
)

// reservedFiles are the descriptors that the daemon needs beside its cache: packs,
// what readers have open that is not cached, connections.
const reservedFiles = 512

// open returns the cache of the daemon, nil where the kernel's is the only one.
func (c *Caching) open() (mixer.Cache, error) {
	if c.Mode != fs.DaemonCache {
		return nil, nil
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	samples := int(min(limit.Cur, 1<<30))
	samples = max(samples/4, samples-max(reservedFiles, samples/8))
	return mixer.NewCache(cmp.Or(c.Policy, mixer.LRUCache), serve.Keepable(max(c.Bytes, 1)), samples)
}

// ahead is how many bytes of files may be loaded that readers have announced and not read.
func (c *Caching) ahead() int64 { return max(c.Bytes/4, minAhead) }

const minAhead = 16 << 20

// text is the cache in words.
func (c *Caching) text() string {
	if c.Mode != fs.DaemonCache {
		return "page"
	}
	return fmt.Sprintf("daemon, %s, %d MiB", cmp.Or(c.Policy, mixer.LRUCache), c.Bytes>>20)
}

// answerAtOnce lets more threads run than there are processors, and more of them wait
// for requests. Where every open is a request, what counts is how soon its answer comes.
// A thread that comes back from the kernel goes on only with a share of the runtime's,
// of which there is one a processor: it finds none where all are with threads that the
// readers have pushed aside, or that have just gone to sleep. Where there are many
// processors there is always one. How many samples are made at once was decided before.
func (c *Caching) answerAtOnce() {
	const enough = 16
	if n := runtime.GOMAXPROCS(0); c.Mode == fs.DaemonCache && n < enough && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(4*n, enough))
	}
}

// cacheCounters are what the policy has counted.
func cacheCounters(s *mixer.CacheStats) []control.Counter {
	if s == nil {
		return nil
	}
	const group = "cache"
	counters := []control.Counter{
		{Group: group, Name: "policy", Unit: control.Text, Text: s.Policy},
		{Group: group, Name: "hits", Value: s.Hits},
		{Group: group, Name: "misses", Value: s.Misses},
		{Group: group, Name: "hit bytes", Value: s.HitBytes, Unit: control.Bytes},
		{Group: group, Name: "missed bytes", Value: s.MissBytes, Unit: control.Bytes},
		{Group: group, Name: "evictions", Value: s.Evictions},
		{Group: group, Name: "samples kept", Value: int64(s.Samples)},
		{Group: group, Name: "kept", Value: s.Bytes, Unit: control.Bytes},
	}
	if s.Policy != mixer.LiquidCache {
		return counters
	}
	epochs := "yes"
	if s.Off != "" {
		epochs = "no: " + s.Off
	}
	return append(counters,
		control.Counter{Group: group, Name: "kept for this epoch", Value: s.CurrentBytes, Unit: control.Bytes},
		control.Counter{Group: group, Name: "kept for the next", Value: s.NextBytes, Unit: control.Bytes},
		control.Counter{Group: group, Name: "epoch", Value: int64(s.Epoch)},
		control.Counter{Group: group, Name: "samples of an epoch", Value: int64(s.Population)},
		control.Counter{Group: group, Name: "read in this one", Value: int64(s.Sampled)},
		control.Counter{Group: group, Name: "epochs recognized", Unit: control.Text, Text: epochs},
	)
}
