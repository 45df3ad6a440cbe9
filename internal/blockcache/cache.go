package blockcache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/store/blob"
)

// Options says how much a cache keeps, and who it is for.
type Options struct {
	// MaxBytes is what the blocks of all processes that use the directory may take, together.
	// 0 leaves that to the limit of the directory, which always holds.
	MaxBytes int64
	// MemoryBytes bounds what requests take in memory until it is written; a request takes 8 MiB at most. Where
	// the disk is slower than the place, readers wait for it. 0 means DefaultMemoryBytes.
	MemoryBytes int64
	// Mount is the directory of the mount, for whoever lists what is kept.
	Mount string
	Log   *slog.Logger
}

// Stats counts what a cache has done since it was opened.
type Stats struct {
	Hits     int64 `json:"hits"`          // blocks that were read from the cache
	Misses   int64 `json:"misses"`        // blocks that a read had to wait for
	Requests int64 `json:"requests"`      // to the place of the objects
	Fetched  int64 `json:"fetched_bytes"` // by these
	Cached   int64 `json:"cached_bytes"`  // that readers got from the cache
	Evicted  int64 `json:"evicted_bytes"` // that made room for others
	Damaged  int64 `json:"damaged"`       // blocks that had another checksum, and were fetched again
	Skipped  int64 `json:"skipped_bytes"` // that were fetched and could not be kept
	Kept     int64 `json:"kept_bytes"`    // that can be read from the cache now
}

// Cache keeps blocks of objects in a directory. It is safe for concurrent use. A nil Cache
// keeps nothing.
type Cache struct {
	root *cachedir.Root
	o    Options
	log  *slog.Logger

	ctx  context.Context // of all requests
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	buckets map[string]func() *bucketCache // each opens its bucket once
	opened  []*bucketCache

	ahead  chan ahead          // what is to be fetched ahead
	flying *semaphore.Weighted // requests ahead of readers
	memory *semaphore.Weighted // bytes of requests and of what is being written

	recentMu    sync.Mutex
	recent      []*flight // that could not be kept on the disk; the oldest first
	recentBytes int64
	recentMost  int64 // see recentBytes

	hits, misses, requests, fetched, cached, evicted, damaged, skipped atomic.Int64
}

const (
	// aheadRequests is how many requests ahead of readers are under way at once, at most.
	aheadRequests = 64
	// aheadQueue is how many calls of Fetch wait at most; more are forgotten.
	aheadQueue = 4096
	// DefaultMemoryBytes is 256 MiB.
	DefaultMemoryBytes = 256 << 20
	// recentBytes is what is remembered of blocks that cannot be kept on the disk.
	recentBytes = 32 << 20
	// refreshEvery is how often it is looked at what other processes have written and removed.
	refreshEvery = 5 * time.Second
)

// Open returns the cache in a directory, which is made if need be. It belongs to one user:
// one that somebody else owns or may write to is refused. Where nothing can be written
// there, the cache keeps nothing, and the log says so once.
func Open(dir string, o Options) (*Cache, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = DefaultMemoryBytes
	}
	c := &Cache{
		root: cachedir.Open(dir), o: o, log: o.Log.With("dir", dir), buckets: map[string]func() *bucketCache{},
		ahead: make(chan ahead, aheadQueue), flying: semaphore.NewWeighted(aheadRequests), memory: semaphore.NewWeighted(max(o.MemoryBytes, mostUnits*unitBytes)), recentMost: recentBytes,
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = private(dir)
	}
	if errors.Is(err, errShared) {
		return nil, err
	}
	if err != nil {
		c.log.Warn("nothing that is read of objects is kept", "cause", err)
		c.root = nil
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.work.Go(c.dispatch)
	c.work.Go(c.refresh)
	return c, nil
}

var errShared = errors.New("a cache of objects belongs to one user alone")

// private refuses a directory that other users may write to: what they put there would
// be read.
func private(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to the user %d: %w; name another directory", dir, st.Uid, errShared)
	case info.Mode()&0o022 != 0:
		return fmt.Errorf("other users may write to %s: %w; name a directory in it, or run chmod 700 %[1]s", dir, errShared)
	}
	return nil
}

// Object opens one version of an object of a place for reading; nothing is asked of the
// place before the first read. A nil Cache keeps nothing: each read goes to the place.
func (c *Cache) Object(o blob.Objects, i blob.Info) *Object {
	obj := &Object{from: o, info: i}
	if c == nil {
		return obj
	}
	place := blob.Origin(o)
	obj.bucket = c.bucket(place)
	text := make([]byte, 0, 512)
	for _, s := range []string{place, i.Name, string(i.Version)} {
		text = binary.LittleEndian.AppendUint64(text, uint64(len(s)))
		text = append(text, s...)
	}
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(text, uint64(i.Size)))
	obj.id = key{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
	return obj
}

// bucket waits where another process holds the lock of the directory; callers for other buckets do not.
func (c *Cache) bucket(place string) *bucketCache {
	c.mu.Lock()
	bucket := c.buckets[place]
	if bucket == nil {
		bucket = sync.OnceValue(func() *bucketCache {
			s := newBucketCache(c, place)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.opened = append(c.opened, s)
			return s
		})
		c.buckets[place] = bucket
	}
	c.mu.Unlock()
	return bucket()
}

// all returns the buckets that are open.
func (c *Cache) all() []*bucketCache {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.opened)
}

// refresh looks now and then at what other processes did.
func (c *Cache) refresh() {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
			for _, s := range c.all() {
				s.refresh()
			}
		}
	}
}

// Stats returns what was counted.
func (c *Cache) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	stats := Stats{
		Hits: c.hits.Load(), Misses: c.misses.Load(), Requests: c.requests.Load(), Fetched: c.fetched.Load(), Cached: c.cached.Load(),
		Evicted: c.evicted.Load(), Damaged: c.damaged.Load(), Skipped: c.skipped.Load(),
	}
	for _, s := range c.all() {
		stats.Kept += s.kept()
	}
	return stats
}

// Close ends all requests that are under way, writes what has arrived, and gives the directory
// back. Nobody reads any more when it is called.
func (c *Cache) Close() error {
	if c == nil {
		return nil
	}
	c.stop()
	c.mu.Lock()
	buckets := slices.Collect(maps.Values(c.buckets))
	c.mu.Unlock()
	for _, bucket := range buckets {
		bucket() // one that is being opened starts work
	}
	c.work.Wait()
	for _, s := range c.all() {
		s.close()
	}
	return nil
}
