package serve

import (
	"cmp"
	"log/slog"
	"math/bits"
	"sync"

	"github.com/pipefs/pipefs/mixer"
)

// Keepable is how much of a memory budget a cache policy may keep. The rest is for
// what is read at the moment and has been given up already: it takes memory until
// its readers have done, and it counts. That is a file a reader at most; where it is
// more than the budget, something is not kept that might be.
func Keepable(cacheBytes int64) int64 {
	cacheBytes = cmp.Or(cacheBytes, DefaultCacheBytes)
	return cacheBytes - cacheBytes/64
}

// cache holds open content. A policy is told of every open and decides what stays; the
// cache holds one pin of that. It is split into shards, each with a policy of its own, so
// that readers do not wait for each other.
type cache struct {
	log    *slog.Logger
	shards []cacheShard // their number is a power of two
	shift  int
	memfd  bool // what is kept is moved into files in memory
	pages  bool // the budget counts all bytes of content, and not those that take memory now
}

type cacheShard struct {
	mu     sync.Mutex
	policy mixer.Cache
	// nil while content is being moved into memory
	byKey map[Key]*Content
	opens int
	told  bool
}

// cacheShards is how many there are where each can keep what was opened last, for itself.
const cacheShards = 16

func newCache(o *Options) *cache {
	policies := []mixer.Cache{o.Cache}
	if o.Cache == nil {
		policies = make([]mixer.Cache, cacheShards)
		for i := range policies {
			// A memfd that is pinned outlives its place in the cache; a quarter of the
			// budget is left for those.
			policies[i] = mixer.NewNewest(o.CacheBytes*3/4/cacheShards, max(1, o.MaxOpen/cacheShards))
		}
	}
	c := &cache{log: o.Log, shards: make([]cacheShard, len(policies)), shift: 64 - bits.TrailingZeros(uint(len(policies))), memfd: o.Memfd, pages: o.Memfd || o.Cache != nil}
	for i, p := range policies {
		c.shards[i].policy, c.shards[i].byKey = p, map[Key]*Content{}
	}
	return c
}

func (c *cache) shard(key Key) *cacheShard {
	// Fibonacci hashing: neighbours in a directory go to different shards.
	return &c.shards[(key*0x9e3779b97f4a7c15)>>c.shift]
}

// cost is what content takes from the budget of a policy.
func (c *cache) cost(of *Content) int64 {
	if c.pages {
		return inPages(of.size)
	}
	return of.cost
}

// peek reports whether content is kept, all of it in memory. It does not count as a use.
func (c *cache) peek(key Key) bool {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byKey[key]
	if found == nil {
		return false
	}
	_, ok := found.reader.(memory)
	return ok || found.memory != nil
}

// get returns content that is kept, pinned, or nil.
func (c *cache) get(key Key) *Content {
	var few [4]*Content
	s := c.shard(key)
	s.mu.Lock()
	found := s.byKey[key]
	if found == nil {
		s.mu.Unlock()
		return nil
	}
	found.Pin()
	keep, evict := s.policy.Open(key, c.cost(found))
	dropped := s.take(few[:0], evict)
	if !keep {
		delete(s.byKey, key)
		dropped = append(dropped, found)
	}
	c.opened(s)
	s.mu.Unlock()
	release(dropped)
	return found
}

// inMemory reports whether the bytes of content that is kept lie in memory. Other content of
// that key is dropped: who opens it next gets it from memory, if it is there by then.
func (c *cache) inMemory(key Key) bool {
	s := c.shard(key)
	s.mu.Lock()
	found, moving := s.byKey[key]
	s.mu.Unlock()
	if found == nil {
		return moving
	}
	if _, ok := found.reader.(memory); ok || found.memory != nil {
		return true
	}
	c.drop(key)
	return false
}

// take removes what has to go, with mu held.
func (s *cacheShard) take(dropped []*Content, evict []uint64) []*Content {
	for _, key := range evict {
		if c := s.byKey[key]; c != nil {
			dropped = append(dropped, c)
		}
		delete(s.byKey, key)
	}
	return dropped
}

// put takes over one pin of content that was opened, and returns the content to
// use, pinned for the caller: another one, if somebody was faster. What the policy keeps
// is moved into memory first, if that is wanted and the budget allows it: otherwise it is not
// kept after all.
func (c *cache) put(key Key, content *Content, from *Server) (*Content, error) {
	var few [4]*Content
	s := c.shard(key)
	s.mu.Lock()
	if found := s.byKey[key]; found != nil {
		found.Pin()
		s.mu.Unlock()
		content.Release()
		return found, nil
	}
	keep, evict := s.policy.Open(key, c.cost(content))
	dropped := s.take(few[:0], evict)
	switch {
	case !keep:
		delete(s.byKey, key)
	case c.memfd:
		s.byKey[key] = nil
	default:
		content.Pin()
		s.byKey[key] = content
	}
	c.opened(s)
	s.mu.Unlock()
	release(dropped)
	if keep && c.memfd {
		return s.move(key, content, from)
	}
	return content, nil
}

// move is the end of put: it moves content into memory.
func (s *cacheShard) move(key Key, content *Content, from *Server) (*Content, error) {
	err := from.intoMemory(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.byKey[key]
	switch {
	case found != nil: // somebody was faster
		found.Pin()
		content.Release()
		return found, nil
	case ok && (err != nil || content.memory == nil && content.size > 0):
		delete(s.byKey, key)
		s.policy.Drop(key)
	case ok:
		content.Pin()
		s.byKey[key] = content
	}
	if err != nil {
		content.Release()
		return nil, err
	}
	return content, nil
}

// opened looks now and then whether the policy has given up, with the shard's mu held.
func (c *cache) opened(s *cacheShard) {
	if s.opens++; s.opens%1024 != 0 || s.told {
		return
	}
	if off := s.policy.Stats().Off; off != "" {
		s.told = true
		c.log.Warn("the cache goes on as with --cache minio", "because", off)
	}
}

// drop forgets a key; readers that hold its content keep it. It returns a result
// that was the content, or nil.
func (c *cache) drop(key Key) (made *result) {
	s := c.shard(key)
	s.mu.Lock()
	found := s.byKey[key]
	delete(s.byKey, key)
	s.policy.Drop(key)
	s.mu.Unlock()
	if found != nil {
		if m, ok := found.reader.(memory); ok {
			made = m.made
		}
		found.Release()
	}
	return made
}

// clear forgets everything.
func (c *cache) clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		var dropped []*Content
		for key, content := range s.byKey {
			if content != nil {
				dropped = append(dropped, content)
			}
			s.policy.Drop(key)
		}
		clear(s.byKey)
		s.mu.Unlock()
		release(dropped)
	}
}

func release(dropped []*Content) {
	for _, c := range dropped {
		c.Release()
	}
}

// stats are those of the one policy that there is; nil where each shard has its own.
func (c *cache) stats() *mixer.CacheStats {
	if len(c.shards) > 1 {
		return nil
	}
	s := &c.shards[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.policy.Stats()
	return &stats
}

// SetTotal tells the cache's policy how many files there are: those that are no
// samples are read as well.
func (s *Server) SetTotal(files int) {
	for i := range s.cache.shards {
		shard := &s.cache.shards[i]
		shard.mu.Lock()
		shard.policy.SetTotal(files)
		shard.mu.Unlock()
	}
}

// Total is the number of files, if the store knows it.
func (s *Server) Total() (files int, ok bool) {
	if !s.packed {
		return 0, false
	}
	return int(s.o.Store.Stats().Samples), true
}

// CountsTotal reports whether the cache's policy wants to be told how many files there are.
func (s *Server) CountsTotal() bool { return s.o.Cache != nil }
