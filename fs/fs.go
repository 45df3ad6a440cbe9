package fs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
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

// Server is where the tree and the bytes of its files come from. It is used by
// many goroutines at once.
type Server interface {
	// List returns the members of a directory, in the order in which the mount
	// lists them.
	List(dir string) ([]source.Entry, error)
	// Stat returns the attributes of a file or directory, links followed. If fresh is
	// true, they are not those that a network file system has cached.
	Stat(path string, fresh bool) (source.Attr, error)
	// Resolve decides how a file is shown in a view, with no more effort than is
	// permitted.
	Resolve(ctx context.Context, key serve.Key, f serve.File, v transcode.Pipeline, most serve.Effort) (Handle, error)
	// OnError, Excuse and Replaceable say what takes the place of a bad sample.
	OnError() serve.OnError
	Excuse(path string, cause error) error
	Replaceable(path string) error
}

// Handle is a file in a view, resolved. It does not change.
type Handle interface {
	// Size is that of the file in the view, exact, in bytes.
	Size() int64
	// Unchanged reports whether the view shows the file as it is.
	Unchanged() bool
	// Plan is how the file is made.
	Plan() transcode.Plan
	// Cached returns content that is open already, pinned, or nil. It must not allocate.
	Cached() Content
	// Open returns content, pinned.
	Open(ctx context.Context) (Content, error)
	// Drop forgets content that is open. A reader that holds it keeps it.
	Drop()
}

// Content is the open bytes of one file in one view.
type Content interface {
	io.ReaderAt // must not allocate
	Size() int64
	// Bytes returns up to n bytes at off if they lie in this process's memory and never
	// change there, so that they need not be copied to be sent, and nil if they have to
	// be read. They are valid until Release.
	Bytes(off int64, n int) []byte
	// Passed notes that n bytes have been sent, and reports whether the receiver has
	// them all by now.
	Passed(n int) bool
	// Memory is a memfd that holds exactly the content, or nil.
	Memory() *os.File
	// Backing is the number by which the kernel knows Memory, or 0. Content keeps it:
	// as long as it is cached, opening it again costs the kernel nothing.
	Backing() int32
	// Back notes the number. Right before the memory goes, forget is called with it.
	Back(id int32, forget func(id int32))
	// Pin makes one more Release necessary.
	Pin()
	// Release gives back the pin with which the content was returned.
	Release()
}

// Serve makes a Server of the usual one.
func Serve(s *serve.Server) Server { return server{s} }

type server struct{ *serve.Server }

func (s server) Resolve(ctx context.Context, key serve.Key, f serve.File, v transcode.Pipeline, most serve.Effort) (Handle, error) {
	h, err := s.Server.Resolve(ctx, key, f, v, most)
	if err != nil {
		return nil, err
	}
	return handle{h}, nil
}

type handle struct{ *serve.Handle }

func (h handle) Cached() Content {
	// A nil pointer in an interface would not be nil.
	if c := h.Handle.Cached(); c != nil {
		return c
	}
	return nil
}

func (h handle) Open(ctx context.Context) (Content, error) {
	c, err := h.Handle.Open(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

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
	Server   Server
	Roles    transcode.Roles
	Cache    CacheMode
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
	server Server
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
	View    string `json:"view"` // all epochs of a random view are one
	Lookups int64  `json:"lookups"`
	Reads   int64  `json:"reads"`
	// Begun is how often a file was read from its first byte on. The kernel asks for
	// that once as long as it keeps the page; what it reads without asking counts when
	// it is opened, as do its Bytes.
	Begun  int64 `json:"begun"`
	Bytes  int64 `json:"bytes"`
	Errors int64 `json:"errors"`
	// Open is the number of files that are open; in DaemonCache mode only.
	Open int64 `json:"open"`
}

// Stats of a file system.
type Stats struct {
	Views []ViewStats `json:"views"`
	// ForgottenViews counts those that were entered long ago and are no longer among
	// Views.
	ForgottenViews uint64 `json:"forgotten_views"`
	// Entries is the number of files and directories that were listed, former
	// versions of changed ones included; Known that of the files whose attributes
	// were looked at.
	Entries int `json:"entries"`
	Known   int `json:"known"`
	// Passthrough: the kernel reads memfds without asking.
	Passthrough bool      `json:"passthrough"`
	Panics      uint64    `json:"panics"`
	Freshness   Freshness `json:"freshness"`
	// Watched is the number of directories that are watched, Unwatched that of those
	// which could not be.
	Watched   int `json:"watched"`
	Unwatched int `json:"unwatched"`
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
