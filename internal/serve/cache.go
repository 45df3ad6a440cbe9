package serve

import (
	"log/slog"
	"path"
	"runtime"
	"sync"

	"github.com/pipefs/pipefs/mixer"
)

// unkeepable is the part of a memory budget that no policy keeps: one in so many bytes.
const unkeepable = 64

// Keepable is how much of a memory budget a cache policy may keep. The rest is for
// what is read at the moment and has been given up already: it takes memory until
// its readers have done, and it counts. That is a file a reader at most; where it is
// more than there is room for, something is not kept that might be.
func Keepable(cacheBytes int64) int64 {
	if cacheBytes == 0 {
		cacheBytes = DefaultCacheBytes
	}
	return cacheBytes - cacheBytes/unkeepable
}

// ruled is the cache of open content whose policy is told of every open. It holds
// one pin of what the policy keeps.
type ruled struct {
	log *slog.Logger

	mu     sync.Mutex
	policy mixer.Cache
	// nil while content is being moved into memory
	byKey map[Key]*Content
	opens int
	told  bool
}

func newRuled(policy mixer.Cache, log *slog.Logger) *ruled {
	if policy == nil {
		return nil
	}
	return &ruled{policy: policy, log: log, byKey: map[Key]*Content{}}
}

// get returns content that is kept, pinned, or nil.
func (r *ruled) get(key Key) *Content {
	var few [4]*Content
	r.mu.Lock()
	c := r.byKey[key]
	if c == nil {
		r.mu.Unlock()
		return nil
	}
	c.Pin()
	dropped := few[:0]
	keep, evict := r.policy.Open(key, inPages(c.size))
	dropped = r.take(dropped, evict)
	if !keep {
		delete(r.byKey, key)
		dropped = append(dropped, c)
	}
	r.opened()
	r.mu.Unlock()
	release(dropped)
	return c
}

// take removes what has to go, with mu held.
func (r *ruled) take(dropped []*Content, evict []uint64) []*Content {
	for _, key := range evict {
		if c := r.byKey[key]; c != nil {
			dropped = append(dropped, c)
		}
		delete(r.byKey, key)
	}
	return dropped
}

// put takes over one pin of content that was opened, and returns the content to
// use, pinned for the caller. What the policy keeps is moved into memory first, if
// there is room: otherwise it is not kept after all.
func (r *ruled) put(key Key, c *Content, p *Server) (*Content, error) {
	var few [4]*Content
	r.mu.Lock()
	if found := r.byKey[key]; found != nil {
		found.Pin()
		r.mu.Unlock()
		c.Release()
		return found, nil
	}
	keep, evict := r.policy.Open(key, inPages(c.size))
	dropped := r.take(few[:0], evict)
	if keep {
		r.byKey[key] = nil
	} else {
		delete(r.byKey, key)
	}
	r.opened()
	r.mu.Unlock()
	release(dropped)
	if !keep {
		return c, nil
	}
	var err error
	if p.o.Memfd {
		err = p.intoMemory(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.byKey[key]
	switch {
	case found != nil: // somebody was faster
		found.Pin()
		c.Release()
		return found, nil
	case ok && (err != nil || p.o.Memfd && c.memory == nil && c.size > 0):
		delete(r.byKey, key)
		r.policy.Drop(key)
	case ok:
		c.Pin()
		r.byKey[key] = c
	}
	if err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// opened looks now and then whether the policy has given up, with mu held.
func (r *ruled) opened() {
	if r.opens++; r.opens%1024 != 0 || r.told {
		return
	}
	if off := r.policy.Stats().Off; off != "" {
		r.told = true
		r.log.Warn("the cache goes on as with --cache-policy minio", "because", off)
	}
}

// drop forgets a key; readers that hold its content keep it.
func (r *ruled) drop(key Key) {
	r.mu.Lock()
	c := r.byKey[key]
	delete(r.byKey, key)
	r.policy.Drop(key)
	r.mu.Unlock()
	if c != nil {
		c.Release()
	}
}

// clear forgets everything.
func (r *ruled) clear() {
	if r == nil {
		return
	}
	r.mu.Lock()
	var dropped []*Content
	for key, c := range r.byKey {
		if c != nil {
			dropped = append(dropped, c)
		}
		r.policy.Drop(key)
	}
	clear(r.byKey)
	r.mu.Unlock()
	release(dropped)
}

func (r *ruled) stats() *mixer.CacheStats {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.policy.Stats()
	return &s
}

func (r *ruled) setTotal(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.policy.SetTotal(n)
}

// count tells the cache's policy how many files there are: those that are no
// samples are read as well.
func (p *Server) count() {
	if t, ok := p.o.Source.(storeTree); ok {
		p.ruled.setTotal(int(t.store.Stats().Samples))
		return
	}
	b := p.background
	b.wg.Go(func() {
		// The thread ends with the goroutine, and its low priority with it.
		runtime.LockOSThread()
		lowPriority()
		if n := b.count(""); b.ctx.Err() == nil {
			p.ruled.setTotal(n)
		}
	})
}

func (b *background) count(dir string) (files int) {
	if b.ctx.Err() != nil {
		return 0
	}
	entries, err := b.p.List(dir)
	if err != nil {
		b.p.log.Warn("directory not counted", "path", dir, "cause", err)
		return 0
	}
	for _, e := range entries {
		if e.Dir {
			files += b.count(path.Join(dir, e.Name))
		} else {
			files++
		}
	}
	return files
}

// Unchanging reports whether the tree is that of a store: what it was when the
// store was opened.
func (p *Server) Unchanging() bool {
	_, packed := p.o.Source.(storeTree)
	return packed
}
