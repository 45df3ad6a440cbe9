package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/lru"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// Options of New.
type Options struct {
	Registry *transcode.Registry
	Roles    transcode.Roles
	// Source is the tree: the dataset's, or that of a store ([StoreTree]).
	Source source.Tree
	// Dataset serves the originals; nil where there is only a store.
	Dataset source.Dataset
	// Nearby is the dataset that Store was packed from, where it happens to be there: its
	// files are read where they would be rebuilt otherwise, and nothing else relies on it.
	Nearby source.Dataset
	// Store holds what was packed; nil where nothing was.
	Store *store.Store
	// Overlay keeps what is made; nil keeps nothing, and what has no exact
	// size in closed form is then made twice.
	Overlay *store.Overlay
	// Policy chooses what to start from; nil means mixer.Longest.
	Policy mixer.Policy
	// Observe is told the load four times a second; nil measures none.
	Observe func(mixer.Load)
	// CacheBytes is the budget for results in memory; 0 means DefaultCacheBytes.
	CacheBytes int64
	// WorkBytes bounds the sources and pixels that readers have in work at once; 0 means
	// DefaultWorkBytes. What is prepared, loaded ahead and put into batches has a quarter each.
	WorkBytes int64
	// MaxOpen is the number of contents kept open; 0 means DefaultMaxOpen.
	MaxOpen int
	// Cache decides what is kept of what was opened, within [Keepable] of CacheBytes;
	// nil: what was opened last, up to CacheBytes and MaxOpen. The server takes it
	// over.
	Cache mixer.Cache
	// Memfd holds open content in memfds, so that the kernel can serve it without
	// asking; each costs a descriptor.
	Memfd bool
	// Workers is the number of samples made at once; 0 means one a core.
	Workers int
	// Account counts what is made for each view; nil: nobody does.
	Account *account.Ledger
	// ForceRandom: random views refuse no samples because of what belongs to them.
	ForceRandom bool
	// OnError says what readers of bad samples get, as long as these are no larger share of the
	// samples than ErrorLimit.
	OnError    OnError
	ErrorLimit float64
	Log        *slog.Logger // nil is silent
}

// Defaults of Options.
const (
	DefaultCacheBytes = 256 << 20
	DefaultWorkBytes  = 1 << 30
	DefaultMaxOpen    = 1024
)

// Server resolves and opens the files of views. It is safe for concurrent use.
type Server struct {
	o     Options
	log   *slog.Logger
	kinds []*transcode.Kind // of the registry
	// packed: the tree is that of the store, and never changes.
	packed bool
	// Readers and the background have places and memory of their own: a reader must
	// not wait for a thread that yields to everything else.
	readers, idlers *limiter
	// Loaders read the sources of samples that are made ahead of time and soon wanted. To
	// compute them they take a place of the readers, who never wait for memory of theirs.
	loaders *limiter
	aheads  aheads
	waiting atomic.Int64 // readers that wait for a file to be resolved or opened
	used    usedViews

	cache  *cache
	memfds budget
	files  memoryFiles

	mu       sync.Mutex
	results  *lru.Map[resultKey, *result]
	drawn    *lru.Map[resultKey, resultKey] // the pixels of samples that were drawn last; see pixels
	several  *lru.Map[uint64, bool]         // seeds of which several draws of an epoch are taken
	headers  *lru.Map[string, header]
	typical  map[string]transcode.Info // see keptHeader
	refusals refusals
	pictures *lru.Map[string, picture] // by path; see Role
	probed   probed
	checks   *lru.Map[string, checked] // by path
	bad      badSamples

	sources, outputs buffers

	holders []holder
	keeper  *keeper
	meter   *meter // nil where no policy follows the load
	unshort func() // the end of OnShort
	stats   counters
}

// New returns a server; Close ends what it still writes.
func New(o Options) (*Server, error) {
	if o.Registry == nil || o.Source == nil {
		return nil, errors.New("serve: a registry and a source are needed")
	}
	if err := o.Roles.Check(); err != nil {
		return nil, err
	}
	o.Policy = cmp.Or[mixer.Policy](o.Policy, mixer.Longest{})
	o.CacheBytes, o.WorkBytes = cmp.Or(o.CacheBytes, DefaultCacheBytes), cmp.Or(o.WorkBytes, DefaultWorkBytes)
	o.MaxOpen, o.Workers = cmp.Or(o.MaxOpen, DefaultMaxOpen), cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	_, packed := o.Source.(storeTree)
	s := &Server{
		o: o, log: o.Log, kinds: o.Registry.Kinds(), packed: packed,
		readers: newLimiter(o.Workers, o.WorkBytes),
		idlers:  newLimiter(o.Workers, o.WorkBytes/4),
		loaders: newLimiter(Loading(o.Workers), o.WorkBytes/4),
		cache:   newCache(&o),
		memfds:  budget{limit: o.CacheBytes},
		files:   newMemoryFiles(o.Memfd),
		results: lru.New[resultKey, *result](o.CacheBytes/4, 4096),
		// Two thirds of that: whose pixels would not stay counts as not drawn.
		drawn:   lru.New[resultKey, resultKey](o.CacheBytes/6, drawnSamples),
		several: lru.New[uint64, bool](0, severalSeeds),
		headers: lru.New[string, header](0, 1<<14), // all of cost 0
		typical: map[string]transcode.Info{}, pictures: lru.New[string, picture](0, maxPictures), checks: lru.New[string, checked](0, maxPictures),
	}
	s.loaders.compute = s.readers
	s.aheads.init(s.readers, o.Workers, o.WorkBytes/4)
	if err := s.refusals.open(o.Registry); err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	if o.Store != nil {
		for _, f := range o.Store.Fractions() {
			s.holders = append(s.holders, f)
		}
	}
	if o.Overlay != nil {
		s.holders = append(s.holders, o.Overlay)
	}
	s.keeper = newKeeper(s)
	s.unshort = cgroup.Work().OnShort(s.dropCaches)
	if o.Observe != nil {
		s.meter = &meter{}
		s.meter.follow(o.Observe, o.Workers)
	}
	return s, nil
}

// Close writes what is still to be kept, and closes what is open and not pinned. The
// source and the stores stay open; they are the caller's.
func (s *Server) Close() error {
	s.unshort()
	s.keeper.close()
	s.meter.close()
	s.cache.clear()
	s.probed.clear()
	s.files.close()
	return nil
}

// dropCaches drops what is in memory and not in use, and returns how many bytes are.
func (s *Server) dropCaches() (used int64) {
	s.cache.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.results.Keys() {
		made, _ := s.results.Remove(key)
		made.release()
	}
	return s.memfds.held.Load()
}

// Renewed is to be called when the store shows another generation. What was opened and is not pinned
// is opened again, from packs of that one, where packs have left.
func (s *Server) Renewed(left bool) {
	if left {
		s.cache.clear()
	}
	if n, ok := s.Total(); ok {
		s.SetTotal(n)
	}
}

// Registry holds the steps and codecs of the views.
func (s *Server) Registry() *transcode.Registry { return s.o.Registry }

// List returns the members of a directory; see [source.Tree].
func (s *Server) List(dir string) ([]source.Entry, error) { return s.o.Source.List(dir) }

// Stat returns the attributes of a file or directory. If fresh is true, they are not
// those that a network file system has cached.
func (s *Server) Stat(path string, fresh bool) (source.Attr, error) {
	if fresh {
		return s.o.Source.Fresh(path)
	}
	return s.o.Source.Stat(path)
}

// Busy reports whether a reader waits for a file to be resolved or opened.
func (s *Server) Busy() bool { return s.waiting.Load() > 0 }

// usedViews tells of each view once, when a file of it is first resolved.
type usedViews struct {
	seen   sync.Map // specs
	notify atomic.Pointer[func(transcode.Pipeline)]
}

// OnUse sets the function that is told of each view that is used for the first time.
func (s *Server) OnUse(f func(transcode.Pipeline)) { s.used.notify.Store(&f) }

func (u *usedViews) use(v transcode.Pipeline) {
	if f := u.notify.Load(); f != nil && v.Len() > 0 {
		if _, seen := u.seen.LoadOrStore(v.String(), true); !seen {
			(*f)(v)
		}
	}
}

type counters struct {
	hits, opened, produced, rebuilt, kept, unkept, failed, panics, busy atomic.Int64
	materialized, computed, fallbacks, fetched                          atomic.Int64
}

// Stats is what a server has done since it was made.
type Stats struct {
	Hits     int64 // reads of content that was open
	Opened   int64 // contents opened
	Produced int64 // results made
	Rebuilt  int64 // of these, originals
	Kept     int64 // of those made, put into the overlay
	Unkept   int64 // not put there: the disk was too slow
	Failed   int64 // results that could not be made
	Panics   int64
	// BusySeconds is the time that workers spent computing, all of them together.
	BusySeconds float64
	MemoryBytes int64 // held in memfds
	// FetchedBytes were read from the dataset, the store and the overlay.
	FetchedBytes int64
	// OverlayBytes is what is kept on disk.
	OverlayBytes int64
	// ReclaimedBytes were given back of it: nothing can ask for them any more.
	ReclaimedBytes int64

	// Refused are the directories that views refused.
	Refused []*Refusal
	// Unfit is how many samples were refused by themselves, each counted once a view.
	Unfit int64

	// Cache is what the cache's policy has counted; nil where there is none.
	Cache *mixer.CacheStats
	Mix   MixStats
	// Full: nothing more can be kept.
	Full bool
}

// MixStats is what was read from, where there was a choice.
type MixStats struct {
	Materialized int64   // opened from what is materialized
	Computed     int64   // computed from something shorter
	Fallbacks    int64   // copies that could not be read, and were made again
	Share        float64 // of materialized reads, that is aimed at
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	c := &s.stats
	s.refusals.mu.Lock()
	unfit := int64(len(s.refusals.unfit))
	s.refusals.mu.Unlock()
	stats := Stats{
		Hits: c.hits.Load(), Opened: c.opened.Load(), Produced: c.produced.Load(), Rebuilt: c.rebuilt.Load(),
		Kept: c.kept.Load(), Unkept: c.unkept.Load(), Failed: c.failed.Load(), Panics: c.panics.Load(),
		BusySeconds: time.Duration(c.busy.Load()).Seconds(),
		MemoryBytes: s.memfds.held.Load(), FetchedBytes: c.fetched.Load(), Cache: s.cache.stats(),
		Mix: MixStats{
			Materialized: c.materialized.Load(), Computed: c.computed.Load(), Fallbacks: c.fallbacks.Load(), Share: s.o.Policy.Share(),
		},
		Full: s.keeper.full.Load() != 0, Refused: s.refusals.list(), Unfit: unfit,
	}
	if s.o.Overlay != nil {
		stats.OverlayBytes, stats.ReclaimedBytes = s.o.Overlay.Bytes(), s.o.Overlay.Reclaimed()
	}
	return stats
}

// StoreTree is the tree of a store, as it is by the generation that the store shows.
func StoreTree(s *store.Store) source.Tree { return storeTree{s} }

type storeTree struct{ store *store.Store }

func (t storeTree) List(dir string) ([]source.Entry, error) {
	children, err := t.store.List(dir)
	if err != nil {
		return nil, notExist(err)
	}
	entries := make([]source.Entry, len(children))
	for i, c := range children {
		entries[i] = source.Entry{Name: c.Name, Dir: c.Kind == store.Dir}
	}
	return entries, nil
}

// Fresh is Stat: a store changes when it is told to.
func (t storeTree) Fresh(name string) (source.Attr, error) { return t.Stat(name) }

func (t storeTree) Stat(name string) (source.Attr, error) {
	// whoever mounts a store owns what it shows
	a := source.Attr{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if name == "" {
		a.Mode = fs.ModeDir | 0o555
		return a, nil
	}
	s, err := t.store.Lookup(name)
	if err != nil {
		return source.Attr{}, notExist(err)
	}
	a.Identity = source.IdentityOf(s.Source.Size, s.Source.Version)
	a.Mode = source.ModeOf(s.Mode)
	if s.Kind == store.Dir {
		a.Mode |= fs.ModeDir
	}
	return a, nil
}

// storedAs is an identity as a store keeps it.
func storedAs(id source.Identity) store.Identity {
	return store.Identity{Size: id.Size, Version: id.Version()}
}

// notExist turns the store's word for it into that of io/fs.
func notExist(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
