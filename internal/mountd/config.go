package mountd

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/internal/supervise"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// Config says what is mounted, where and how. All paths are absolute.
type Config struct {
	// Source is the dataset or store, and Dir the directory that it is mounted on. Both
	// are paths without links, see mounts.Resolve; Source may be a URL, see remote.Is.
	Source, Dir string
	// Roles say which samples are pictures and which are masks.
	Roles transcode.Roles
	// Limits bound what a hostile sample may cost.
	Limits transcode.Limits
	// Workers is the number of samples that are computed at once; 0 is one a core.
	Workers int

	Read Reading
	// Remote is how URLs are reached, and where what is read of them is kept.
	Remote remote.Access
	Keep   Keeping
	Cache  Caching
	Views  Views
	GPU    GPU
	Kernel Kernel
	// Shared is the key of a mount that ends with its last holder, see [control.Place];
	// empty for one that stays until it is unmounted. The supervisor counts the holders.
	Shared string

	// Metrics is where metrics are shown, HOST:PORT or unix:PATH; empty shows none.
	Metrics string

	// LogFile is told to clients of the control socket; empty where the log is no file.
	LogFile string
	Log     *slog.Logger `json:"-"` // nil is silent
	// Note is told what the user should know of the mount; nil tells nobody.
	Note func(text string) `json:"-"`
	// Status is told what Start waits for; nil tells nobody.
	Status func(what string) `json:"-"`
}

// Reading is where bytes come from beside Source, and how they are read.
type Reading struct {
	// Store of the dataset Source, which may be a URL. A directory that is no store, or
	// that is not there, is where to keep what the mount prepares; see Keeping.
	Store string
	// Dataset of the store Source; empty where there is none.
	Dataset string
	// NoFollow refuses symbolic links that lead out of the dataset.
	NoFollow bool
	// Immutable: the dataset does not change while it is mounted.
	Immutable bool
	// Manifest is the file that lists the objects of a dataset in a bucket, or the files of one in
	// a directory; empty where they are to be listed.
	Manifest string
	// Classes is a list of classes, which makes directories of them; empty where the dataset has them. See [source.Classes].
	Classes string
	// Metadata shows the columns of Parquet files as a file metadata.jsonl in the directory of each split.
	Metadata bool
	// Refresh is how old may be what is shown of a store, or of a dataset in a bucket: the store's
	// current generation is looked at so often, and the bucket is listed when its list is older,
	// when it is mounted and from then on. 0 does that when it is mounted, and a negative age is any.
	Refresh time.Duration
	// BytesPerSecond and ReadsPerSecond slow reading down, for measurements; 0 does not.
	BytesPerSecond, ReadsPerSecond int64
}

// Keeping is how much of what the mount prepares stays on disk.
type Keeping struct {
	// MaxBytes bounds what this mount keeps: 0 keeps nothing, and a negative number
	// leaves it to the limit of all mounts of the user, or in a directory of its own to
	// the free space.
	MaxBytes int64
	// NoBackground prepares nothing ahead of time.
	NoBackground bool
}

// Caching is where the content of samples is cached in memory.
type Caching struct {
	Mode fs.CacheMode
	// Bytes of memory for samples; 0 keeps none. A negative number is serve.DefaultCacheBytes,
	// or an eighth of what cgroups allow, if that is less.
	Bytes int64
	// Policy of the cache in mode fs.DaemonCache, one of mixer.CachePolicies; empty is
	// mixer.LRUCache.
	Policy string
	// Direct reads the packs of a store past the page cache.
	Direct bool
}

// Views are what the root of the mount shows.
type Views struct {
	// List names views that are listed beside the usual ones.
	List []string
	// Scans is where the link current points at first, 1 to MaxFidelity.
	Scans int
	Mix   Mix
	// Seed of what random views draw whose path names none.
	Seed uint64
	// ForceRandom: random views also show samples that have boxes or masks beside them.
	ForceRandom bool
	// OnError says what readers of a sample that cannot be made get, as long as these are no larger
	// share of the samples than ErrorLimit.
	OnError    serve.OnError
	ErrorLimit float64
	// Lists are files that list the samples of epochs.
	Lists []string
}

// tables are the lists by the names that they have below .epoch.
func (v *Views) tables() map[string]string {
	tables := map[string]string{}
	for _, file := range v.Lists {
		tables[filepath.Base(file)] = file
	}
	return tables
}

// Mix is how representations are mixed.
type Mix struct {
	// Adaptive reads so much of what is materialized as keeps disk and decoder equally
	// busy. It needs fs.DaemonCache.
	Adaptive bool
	// Share of reads from what is materialized, 0 to 1; not with Adaptive.
	Share float64
	// Format is the view that the link mix leads to, one of MixFormats; empty leaves it
	// to what was measured.
	Format string
}

// GPU decodes L3 files.
type GPU struct {
	// Off leaves the GPU alone. Else one is looked for and used if it is faster, unless
	// Force demands that of number Device.
	Off, Force bool
	Device     int
}

// Kernel is what the kernel is told of the mount.
type Kernel struct {
	// AllowOther lets other users in.
	AllowOther bool
	// Premount is what the supervisor has mounted; nil mounts.
	Premount *fs.Premount `json:"-"`
	// ControlPipe joins the daemon and its supervisor; nil without one. Journal is nil if no
	// other daemon may follow.
	ControlPipe *supervise.ControlPipe `json:"-"`
	Journal     *fs.Journal            `json:"-"`
	// Expire and Suspects are those of [fs.Options].
	Expire   bool `json:"-"`
	Suspects bool `json:"-"`
}

// MaxFidelity is the number of scans of which a JPEG is made.
const MaxFidelity = 10

// Default is the Config of a mount that nothing is said about but what and where.
func Default(source, dir string) Config {
	return Config{
		Source: source, Dir: dir,
		Remote: remote.Access{Bytes: -1},
		Read:   Reading{Refresh: -1},
		Keep:   Keeping{MaxBytes: -1},
		Cache:  Caching{Bytes: -1},
		Views:  Views{Scans: MaxFidelity, ErrorLimit: serve.DefaultErrorLimit, Mix: Mix{Share: 1}, Seed: uint64(rand.Uint32())},
	}
}

func (c *Config) note(text string) {
	if c.Note != nil {
		c.Note(text)
	}
}

func (c *Config) status(what string) {
	if c.Status != nil {
		c.Status(what)
	}
}

// kernelOptions are what package fs is told.
func (c *Config) kernelOptions() fs.MountOptions {
	o := fs.MountOptions{Source: c.Source, AllowOther: c.Kernel.AllowOther, Options: []string{"noexec"}, Premount: c.Kernel.Premount}
	return o
}

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

// budgets are memory in bytes that no option says; 0 is the default.
type budgets struct {
	work    int64 // sources and pixels that are in work
	fetched int64 // what comes from a bucket, until it is written to the disk
	blocks  int64 // blocks of open objects of a bucket
}

// fitMemory decides how much memory the mount may use. Where cgroups limit what this process
// uses together with others, the readers among them, each budget is an eighth of that at most,
// and the garbage collector works harder from a half on. Left to itself it lets the heap grow to
// twice what is in use; half as much more costs no time, since samples are made in memory that is used again.
func (c *Config) fitMemory(log *slog.Logger) budgets {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
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
