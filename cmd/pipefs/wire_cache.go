package main

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store/vfs"
)

// cacheConfig is how the daemon's own cache is ruled.
type cacheConfig struct {
	policy string // "" is the default
	direct bool
}

// cacheOptions are those of mount.
func cacheOptions(c *cacheConfig) []*option {
	*c = cacheConfig{}
	return []*option{
		{name: "cache-policy", arg: "liquid|minio|lru", def: mixer.LRUCache, set: intoChoice(&c.policy, mixer.CachePolicies...),
			help: "with --cache daemon, what stays within --cache-bytes: liquid keeps the hit ratio of shuffled epochs constant, at the share of the dataset that fits; minio keeps what was read first; lru what was read last"},
		{name: "direct", set: intoBool(&c.direct),
			help: "with --cache daemon, read the packs of a store past the page cache (O_DIRECT): memory holds what --cache-bytes holds, and no second copy"},
	}
}

// check refuses a policy for a cache that has none.
func (c *cacheConfig) check(cache string) error {
	if c.policy != "" && cache != "daemon" {
		return exit.Errorf(exit.Usage, "--cache-policy %s needs --cache daemon: with --cache page the kernel decides what it keeps", c.policy)
	}
	if c.direct && cache != "daemon" {
		return exit.Errorf(exit.Usage, "--direct needs --cache daemon: the kernel's cache is the only one otherwise")
	}
	return nil
}

// files is how packs are read; nil is as usual.
func (c *cacheConfig) files() vfs.FS {
	if c.direct {
		return vfs.Direct(vfs.OS)
	}
	return nil
}

// spareFiles are the descriptors that the daemon needs beside its cache: packs,
// what readers have open that is not cached, connections.
const spareFiles = 512

// wire gives the producer its cache, where the daemon has one.
func (c *cacheConfig) wire(cache string, o *serve.Options) error {
	if cache != "daemon" {
		return nil
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return exit.With(exit.System, err)
	}
	samples := int(min(limit.Cur, 1<<30))
	samples = max(samples/4, samples-max(spareFiles, samples/8))
	policy := c.policy
	if policy == "" {
		policy = mixer.LRUCache
	}
	var err error
	o.Cache, err = mixer.NewCache(policy, serve.Keepable(o.CacheBytes), samples)
	return err
}

// answerAtOnce lets more threads run than there are processors, and more of them wait
// for requests. Where every open is a request, what counts is how soon its answer comes.
// A thread that comes back from the kernel goes on only with a share of the runtime's,
// of which there is one a processor: it finds none where all are with threads that the
// readers have pushed aside, or that have just gone to sleep. Where there are many
// processors there is always one. How many samples are made at once was decided before.
func (c *cacheConfig) answerAtOnce(cache string) {
	const enough = 16
	if n := runtime.GOMAXPROCS(0); cache == "daemon" && n < enough && os.Getenv("GOMAXPROCS") == "" {
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
