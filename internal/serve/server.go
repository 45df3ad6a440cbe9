package serve

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

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
	Dataset *source.Directory
	// Nearby is the dataset that Store was packed from, where it happens to be there: its
	// files are read where they would be rebuilt otherwise, and nothing else relies on it.
	Nearby *source.Directory
	// Store holds what was packed; nil where nothing was.
	Store *store.Store
	// Overlay keeps what is produced; nil keeps nothing, and what has no exact
	// size in closed form is then made twice.
	Overlay *store.Overlay
	// Policy chooses what to start from; nil means mixer.Longest.
	Policy mixer.Policy
	// CacheBytes is the budget for produced samples in memory; 0 means
	// DefaultCacheBytes.
	CacheBytes int64
	// MaxOpen is the number of contents kept open; 0 means DefaultMaxOpen.
	MaxOpen int
	// Cache decides what is kept of what was opened, within [Keepable] of CacheBytes;
	// nil: what was opened last, up to CacheBytes and MaxOpen. The producer takes it
	// over.
	Cache mixer.Cache
	// Memfd holds open content in memfds, so that the kernel can serve it without
	// asking; each costs a descriptor.
	Memfd bool
	// Workers is the number of samples produced at once; 0 means one a core.
	Workers int
	Log     *slog.Logger // nil is silent
}

// Defaults of Options.
const (
	DefaultCacheBytes = 256 << 20
	DefaultMaxOpen    = 1024
)

// Producer makes and opens the files of views. It is safe for concurrent use.
type Server struct {
	o   Options
	log *slog.Logger
	// Readers and the background have places and memory of their own: a reader must
	// not wait for a thread that yields to everything else.
	readers, idlers *crew

	contents *contents
	ruled    *ruled // instead of contents, where a policy rules
	memfds   budget
	files    memoryFiles

	mu       sync.Mutex
	products *lru[productKey, *product]
	infos    *lru[string, knownInfo]
	typical  map[string]transcode.Info // see keptInfo
	settled  settledJobs
	refusals refusals

	sources, results buffers

	copies     []copies
	keeper     *keeper
	full       atomic.Int64 // since when nothing more can be kept, in ns since 1970; else 0
	background *background
	meter      *meter // nil unless the policy follows the load
	stats      counters
}

// New returns a producer; Close stops what it does in the background.
func New(o Options) (*Server, error) {
	if o.Registry == nil || o.Source == nil {
		return nil, fmt.Errorf("serve: a registry and a source are needed")
	}
	if err := o.Roles.Check(); err != nil {
		return nil, err
	}
	if o.Policy == nil {
		o.Policy = mixer.Longest{}
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.MaxOpen == 0 {
		o.MaxOpen = DefaultMaxOpen
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Server{
		o: o, log: o.Log,
		readers: newCrew(o.Workers, workBytes),
		idlers:  newCrew(o.Workers, workBytes/4),
		// A memfd that is pinned outlives its place in the cache; a quarter of the
		// budget is left for those.
		contents: newContents(o.CacheBytes*3/4, o.MaxOpen),
		ruled:    newRuled(o.Cache, o.Log),
		memfds:   budget{limit: o.CacheBytes},
		products: newLRU[productKey, *product](o.CacheBytes/4, 4096),
		infos:    newLRU[string, knownInfo](0, 1<<14), // all of cost 0
		typical:  map[string]transcode.Info{},
		settled:  settledJobs{seed: maphash.MakeSeed()},
	}
	if err := p.refusals.open(o.Registry); err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	if o.Store != nil {
		for _, f := range o.Store.Fractions() {
			p.copies = append(p.copies, f)
		}
	}
	if o.Overlay != nil {
		p.copies = append(p.copies, o.Overlay)
	}
	p.files = newMemoryFiles(o.Memfd)
	p.keeper = newKeeper(p)
	p.background = newBackground(p)
	if p.ruled != nil {
		p.count()
	}
	if f, ok := o.Policy.(follower); ok {
		p.meter = &meter{}
		p.meter.follow(f, o.Workers)
	}
	return p, nil
}

// Close stops the background work, writes what is still to be kept, and closes what is open and not pinned. The
// source and the stores stay open; they are the caller's.
func (p *Server) Close() error {
	p.background.close()
	p.keeper.close()
	p.meter.close()
	p.contents.clear()
	p.ruled.clear()
	p.files.close()
	return nil
}

// List returns the members of a directory; see [source.Tree].
func (p *Server) List(dir string) ([]source.Entry, error) { return p.o.Source.List(dir) }

// Stat returns the attributes of a file or directory; see [source.Tree].
func (p *Server) Stat(path string) (source.Attr, error) { return p.o.Source.Stat(path) }

// Fresh is Stat past the caches of a network file system; see [source.Tree].
func (p *Server) Fresh(path string) (source.Attr, error) { return p.o.Source.Fresh(path) }

// Touched tells that somebody entered a view: preparing it may begin.
func (p *Server) Touched(v transcode.Pipeline) { p.background.touched(v) }

// Resolve tells the exact size of a file in a view, producing it if there is no
// other way to know.
func (p *Server) Resolve(ctx context.Context, key Key, f File, v transcode.Pipeline) (Result, error) {
	p.background.pause()
	defer p.background.resume()
	r, j, err := p.known(key, f, v)
	if err != nil || j == nil {
		return r, err
	}
	made, err := p.produce(ctx, p.readers, j, longest(j))
	if rest, ok := p.spared(j, err); ok {
		j = rest
		made, err = p.produce(ctx, p.readers, j, longest(j))
	}
	switch {
	case p.indivisible(j, err):
		return p.Resolve(ctx, key, f, v)
	case err != nil:
		return Result{}, err
	}
	defer made.release()
	size, err := made.size(j)
	return Result{Size: size}, err
}

// Known tells what Resolve would where the store can say it; else, and after any
// error, ok is false. Nothing is read of the dataset, and nothing is made.
func (p *Server) Known(key Key, f File, v transcode.Pipeline) (r Result, ok bool) {
	if stored, err := p.stored(f); err != nil || stored == nil {
		return Result{}, false
	}
	r, j, err := p.known(key, f, v)
	return r, err == nil && j == nil
}

// known tells the size of a file in a view if it can be told without making it. Else
// j is what is to be made.
func (p *Server) known(key Key, f File, v transcode.Pipeline) (r Result, j *job, err error) {
	plain, err := p.plain(key, f, v)
	if err != nil {
		return Result{}, nil, err
	}
	if plain {
		return Result{Size: f.Identity.Size, Unchanged: true}, nil, nil
	}
	if j, err = p.job(f, v); err != nil {
		return Result{}, nil, err
	}
	if j.plan.Unchanged() {
		return Result{Size: f.Identity.Size, Unchanged: true}, nil, nil
	}
	if size, ok := j.plan.Size(); ok {
		return Result{Size: size}, nil, nil
	}
	if size, ok := j.storedSize(); ok {
		return Result{Size: size}, nil, nil
	}
	return Result{}, j, nil
}

// plain reports whether the view shows the file as it is without looking at it.
func (p *Server) plain(key Key, f File, v transcode.Pipeline) (bool, error) {
	if v.Len() == 0 || !p.o.Registry.IsSample(f.Path) {
		return true, nil
	}
	if !v.Stored() {
		return false, nil
	}
	shown, err := p.showsStored(key, f.Path, v)
	return !shown, err
}

// Acquire returns open content pinned, or nil where it has to be opened. It does
// not allocate.
func (p *Server) Acquire(key Key) *Content {
	var c *Content
	if p.ruled != nil {
		c = p.ruled.get(key)
	} else {
		c = p.contents.get(key)
	}
	if c == nil {
		return nil
	}
	p.stats.hits.Add(1)
	return c
}

// Drop forgets open content; who holds it keeps it.
func (p *Server) Drop(key Key) {
	if p.ruled != nil {
		p.ruled.drop(key)
		return
	}
	if made := p.contents.drop(key); made != nil && !made.shared {
		p.forget(made)
	}
}

// Open opens a file in a view and pins it.
func (p *Server) Open(ctx context.Context, key Key, f File, v transcode.Pipeline) (*Content, error) {
	if c := p.Acquire(key); c != nil {
		return c, nil
	}
	p.background.pause()
	defer p.background.resume()
	c, err := p.open(ctx, key, f, v)
	if err != nil {
		return nil, err
	}
	c.refs.Store(1)
	if _, made := c.reader.(memory); !made {
		c.fetched = &p.stats.fetched
	}
	p.stats.opened.Add(1)
	if p.ruled != nil {
		return p.ruled.put(key, c, p)
	}
	if p.o.Memfd {
		if err := p.intoMemory(c); err != nil {
			c.Release()
			return nil, err
		}
	}
	return p.contents.put(key, c), nil
}

func (p *Server) open(ctx context.Context, key Key, f File, v transcode.Pipeline) (*Content, error) {
	if plain, err := p.plain(key, f, v); err != nil || plain {
		if err != nil {
			return nil, err
		}
		return p.openOriginal(ctx, f)
	}
	j, err := p.job(f, v)
	if err != nil {
		return nil, err
	}
	if j.plan.Unchanged() {
		return p.openOriginal(ctx, f)
	}
	// What lies in memory is the nearest, whatever the policy thinks of disks.
	if made := p.recent(j); made != nil {
		return made.content(j)
	}
	c, err := p.openFrom(ctx, key, j)
	if p.indivisible(j, err) {
		return p.open(ctx, key, f, v)
	}
	return c, err
}

// openOriginal opens the file as the dataset has it.
func (p *Server) openOriginal(ctx context.Context, f File) (*Content, error) {
	// Where the tree is the dataset's own, its files are the nearest.
	_, packed := p.o.Source.(storeTree)
	if packed {
		r, err := p.storedOriginal(f)
		if err != nil {
			return nil, err
		}
		if r != nil {
			return &Content{size: r.Size(), reader: r}, nil
		}
	}
	file, err := p.openDataset(f)
	if err == nil {
		return &Content{size: f.Identity.Size, reader: datasetContent{file}}, nil
	}
	if packed {
		j, jobErr := p.rebuild(f)
		if jobErr != nil {
			return nil, jobErr
		}
		if j != nil {
			return p.openRebuilt(ctx, f, j)
		}
	}
	return nil, err
}
