package fs

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/fs/conn"
	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/ahead"
	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// CacheMode says where the content of files is cached.
type CacheMode uint8

// The cache modes.
const (
	// PageCache: the kernel's page cache is the cache. Opening and closing files,
	// and reading what is cached, cost no request.
	PageCache CacheMode = iota
	// DaemonCache: the server's cache is the cache. Every open is a request;
	// content that is in a memfd is read by the kernel without asking again, where
	// the system permits it.
	DaemonCache
)

func (m CacheMode) String() string {
	if m == DaemonCache {
		return "daemon"
	}
	return "page"
}

// Options of New.
type Options struct {
	Registry *transcode.Registry
	// Server is where the tree and the bytes of its files come from.
	Server *serve.Server
	Roles  transcode.Roles
	Cache  CacheMode
	// Freshness says how the mount learns what changes; Watched needs a Watcher of the
	// tree that Server lists, which Mount then closes.
	Freshness Freshness
	Watcher   *source.Watcher
	// Views that the root lists, in this order: canonical specs.
	Views []string
	// Seed of what is drawn by random views that are not below .draw.
	Seed uint64
	// Epochs are the epoch views; nil: there are none.
	Epochs *epoch.Views
	// Ahead loads what readers announce; nil: they cannot.
	Ahead *ahead.Queue
	// Refuse returns why a view cannot be entered, or nil; nil refuses none. It is asked
	// when a view is first named.
	Refuse func(transcode.Pipeline) error
	// Files return the content of files below .pipefs, by their path there: NAME or
	// DIRECTORY/NAME, of at most 10 directories. /NAME is a file in the root of the mount.
	Files map[string]func() ([]byte, error)
	// Control is where the link .pipefs/control leads; none if empty.
	Control string
	// MaxViews is how many of the views that nobody uses are remembered; the listed ones
	// do not count. 0 means DefaultMaxViews.
	MaxViews int
	// ListBytes bounds the memory for file lists; 0 means DefaultListBytes.
	ListBytes int64
	// Expire: names expire after a second, and the kernel is not told to forget them. A notice
	// of a name waits while the kernel waits for a reply to a request in that directory. Where
	// nobody could end the connection of a daemon that dies meanwhile, its readers would wait
	// for ever.
	Expire bool
	// Suspects: daemons of this mount died of what they did, the last one before this one, too.
	// Requests that they left unanswered run one at a time.
	Suspects bool
	// Journal of a mount that another daemon may take over, or that this one takes over;
	// nil of any other.
	Journal *Journal
	// Account counts requests and where their time goes; nil: one that nobody sees.
	Account *account.Ledger
	// Trace records requests while somebody asks for them; nil: nobody ever does.
	Trace *account.Recorder
	Log   *slog.Logger // nil is silent
}

// Defaults of Options.
const (
	DefaultMaxViews  = 4096
	DefaultListBytes = 64 << 20
)

// FS answers the kernel's requests. It can be mounted once.
type FS struct {
	fuse.RawFileSystem // ENOSYS to whatever is not implemented

	reg    *transcode.Registry
	server *serve.Server
	roles  transcode.Roles
	mode   CacheMode
	fresh  Freshness
	expire bool
	others bool   // other users may use the mount
	born   uint64 // tells what this daemon opened from what others did
	live   *live  // of a Watched mount; nil of others
	log    *slog.Logger

	tree      *tree
	views     *views
	refuse    func(transcode.Pipeline) error
	seed      uint64
	epochs    *epoch.Views
	ahead     *ahead.Queue
	root      *root
	dirs      dirHandles
	bulk      bulk
	opens     opens
	handles   handles
	journal   *Journal
	lostViews []string            // that this program would make otherwise
	gaveWay   map[uint32][]uint32 // entries that are in no listing any more, by directory, until the kernel is told
	resumed   []uint32            // directories that a daemon before this one listed, until they are looked through
	failures  failures
	notify    notifier
	readDraws readDraws
	account   *account.Ledger
	trace     *account.Recorder
	suspects  *suspects // nil while no daemon died of what it did

	kernel     atomic.Pointer[conn.Conn]
	passes     atomic.Bool // the kernel takes backing files
	panics     atomic.Uint64
	specErrors sync.Map // names that were explained already
	explained  atomic.Int32
}

// New returns a file system that is ready to be mounted.
func New(o Options) (*FS, error) {
	if o.Registry == nil || o.Server == nil {
		return nil, errors.New("fs: a registry and a server are needed")
	}
	if (o.Freshness == Watched) != (o.Watcher != nil) {
		return nil, errors.New("fs: a watched mount, and only that, needs a watcher")
	}
	if err := o.Roles.Check(); err != nil {
		return nil, err
	}
	if o.MaxViews == 0 {
		o.MaxViews = DefaultMaxViews
	}
	if o.ListBytes == 0 {
		o.ListBytes = DefaultListBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Account == nil {
		o.Account = account.New()
	}
	f := &FS{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		reg:           o.Registry, server: o.Server, roles: o.Roles, mode: o.Cache, fresh: o.Freshness, expire: o.Expire, log: o.Log,
		tree:  newTree(o.Server),
		views: newViews(o.MaxViews, o.Account), account: o.Account, trace: o.Trace,
		born: uint64(time.Now().UnixNano()), refuse: o.Refuse, seed: o.Seed, epochs: o.Epochs, ahead: o.Ahead,
	}
	f.tree.sure = f.fresh != Immutable
	if o.Watcher != nil {
		f.live = newLive(f, o.Watcher)
		f.tree.watch = f.live.watch
	}
	f.dirs.open = map[dirKey]*dirHandle{}
	f.opens.nodes = map[uint64]*openNode{}
	f.handles.init()
	f.failures.init()
	f.notify.init()
	f.root = newRoot(o)
	if f.epochs != nil {
		f.epochs.Use(epochTree{f})
	}
	if f.ahead != nil {
		f.ahead.Use(aheadTree{f})
	}
	if err := f.resume(o); err != nil {
		return nil, err
	}
	for _, spec := range o.Views {
		if err := f.listView(spec); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// String names the file system in messages of go-fuse.
func (f *FS) String() string { return fsName }

// connected comes before the first request.
func (f *FS) connected(c *conn.Conn) {
	f.passes.Store(f.mode == DaemonCache && c.Agreed()&fuse.CAP_PASSTHROUGH != 0)
	f.kernel.Store(c)
	if f.mode == DaemonCache && f.journal != nil {
		f.log.Info("no passthrough: the mount is supervised, and the next daemon could not know of it; files are read through the daemon")
	}
}

// disconnected comes after the last request.
func (f *FS) disconnected() {
	f.kernel.Store(nil)
	f.opens.releaseAll()
}

// ViewStats counts what was asked of a view. What the kernel has cached it does
// not ask for.
type ViewStats struct {
	View    string // all epochs of a random view are one
	Lookups int64
	Reads   int64
	// Begun is how often a file was read from its first byte on. The kernel asks for
	// that once as long as it keeps the page; what it reads without asking counts when
	// it is opened, as do its Bytes.
	Begun  int64
	Bytes  int64
	Errors int64
	// Open is the number of files that are open; in DaemonCache mode only.
	Open int64
}

// Stats of a file system.
type Stats struct {
	Views []ViewStats
	// ForgottenViews counts those that were entered long ago and are no longer among
	// Views.
	ForgottenViews uint64
	// Entries is the number of files and directories that were listed, former
	// versions of changed ones included; Known that of the files whose attributes
	// were looked at.
	Entries int
	Known   int
	// Passthrough: the kernel reads memfds without asking.
	Passthrough bool
	Panics      uint64
	Freshness   Freshness
	// Watched is the number of directories that are watched, Unwatched that of those
	// which could not be.
	Watched   int
	Unwatched int
}

// Stats returns the counters as they are now.
func (f *FS) Stats() Stats {
	s := Stats{
		Entries: f.tree.entries.count(), Known: f.tree.attrs.count(),
		Passthrough: f.passes.Load(), Panics: f.panics.Load(),
	}
	s.Freshness = f.fresh
	if l := f.live; l != nil {
		s.Watched = l.w.Count()
		l.mu.Lock()
		s.Unwatched = l.refused
		l.mu.Unlock()
	}
	for _, v := range f.views.all() {
		if !v.pipeline.Random() {
			s.Views = append(s.Views, statsOf(v.name, v.counters))
		}
	}
	f.views.mu.RLock()
	defer f.views.mu.RUnlock()
	s.ForgottenViews = f.views.forgotten
	for _, spec := range slices.Sorted(maps.Keys(f.views.drawn)) {
		s.Views = append(s.Views, statsOf(transcode.DrawDir+"/…/"+spec, f.views.drawn[spec]))
	}
	return s
}

func statsOf(view string, c *account.View) ViewStats {
	return ViewStats{
		View: view, Lookups: c.Lookups.Load(), Reads: c.Reads.Load(), Begun: c.Begun.Load(), Bytes: c.Bytes.Load(),
		Errors: c.Errors.Load(), Open: c.Open.Load(),
	}
}
