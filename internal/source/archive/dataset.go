package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/names"
	"github.com/pipefs/pipefs/internal/source/parquet"
)

// Options of Open.
type Options struct {
	// Dir is the directory for indexes that are kept, shared by the mounts of a user.
	Dir string
	// Held is closed with the Dataset, or when it cannot be opened; it may be nil.
	Held io.Closer
	// Dirs are the directories that members of archives are shown in, by the names of the archives. Others are
	// shown at the root, and rows of other Parquet files in that of their split.
	Dirs map[string]string
	// Metadata is that directories of rows of Parquet files have a file of their other columns, see [Dataset.Metadata].
	Metadata bool
	// AtOnce is how many bytes of Parquet files are read before the dataset is there; more are read behind. 0 is 64 MB.
	AtOnce int64
	// Progress is told, now and then, how many members were found, and which share of the bytes of all archives lies
	// before them; 0 is not known. nil is told nothing.
	Progress func(members int64, share float64)
	Log      *slog.Logger // nil is silent
}

// Dataset is the members of archives. It is safe for concurrent use.
type Dataset struct {
	under  source.Dataset
	root   string
	shards []string
	o      Options
	log    *slog.Logger

	mu     sync.RWMutex // held to replace the table
	table  *table
	attrs  []source.Attr // of the archives
	dir    source.Attr   // of directories
	rescan sync.Mutex
	told   sync.Once // that the list that was kept is of another version
	pages  pages

	locating sync.WaitGroup // reads all groups of rows, until cancel
	cancel   context.CancelFunc
}

var _ source.Dataset = (*Dataset)(nil)

// Open returns the dataset of the members of archives, which are files of another dataset. root is what the
// user calls them. The Dataset closes the one below it, also where it cannot be opened.
func Open(ctx context.Context, under source.Dataset, root string, shards []string, o Options) (*Dataset, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.AtOnce == 0 {
		o.AtOnce = 64 << 20
	}
	d := &Dataset{under: under, root: root, shards: shards, o: o, log: o.Log}
	err := d.stat()
	if err == nil {
		d.table, err = d.kept(ctx, d.known)
	}
	if err != nil {
		return nil, errors.Join(err, d.release())
	}
	d.startBehind()
	return d, nil
}

// stat asks for the attributes of the archives: who may read all of them may list and read their
// members.
func (d *Dataset) stat() error {
	attrs := make([]source.Attr, len(d.shards))
	mode := fs.FileMode(0o444)
	for i, name := range d.shards {
		a, err := d.under.Fresh(name)
		if err != nil {
			return err
		}
		attrs[i] = a
		if mode &= a.Mode; a.UID != attrs[0].UID || a.GID != attrs[0].GID {
			mode &= 0o404
		}
	}
	d.attrs = attrs
	d.dir = source.Attr{Mode: fs.ModeDir | 0o500 | mode | mode>>2&0o111, UID: attrs[0].UID, GID: attrs[0].GID}
	for _, a := range attrs {
		d.dir.MTime = max(d.dir.MTime, a.MTime)
		d.dir.CTime = max(d.dir.CTime, a.CTime)
	}
	return nil
}

// table is an open index.
type table struct {
	names.Tree
	Summary
	ids  []uint64 // of the archives, for identities of members
	rows *rows
	// metadata are the files of Options.Metadata that were made, by directory.
	metadata map[string]*once[[]byte]
	recent   [recentEntries]atomic.Pointer[looked]
}

// recentEntries is how many members are remembered that the index was asked for: who looks a name up opens it next.
const recentEntries = 256

type looked struct {
	name string
	entry
}

var recentSeed = maphash.MakeSeed()

// entry returns what the index says of a member, or that the name is that of a directory.
func (t *table) entry(name string) (e entry, isDir bool, err error) {
	at := &t.recent[maphash.String(recentSeed, name)%recentEntries]
	if l := at.Load(); l != nil && l.name == name {
		return l.entry, false, nil
	}
	value, isDir, err := t.Find(name)
	if err != nil || isDir {
		return e, isDir, err
	}
	if e, err = parse(value, t.Shards); err != nil {
		return e, false, fmt.Errorf("%s: %w", name, err)
	}
	at.Store(&looked{name, e})
	return e, false, nil
}

// openTable opens the index in a directory.
func (d *Dataset) openTable(at string) (*table, error) {
	x, err := index.Open(at, indexID)
	if err != nil {
		return nil, err
	}
	t := &table{metadata: map[string]*once[[]byte]{}}
	t.Index = x
	if err := x.Describe(&t.Summary); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: %w", at, index.ErrCorrupt, err), t.Close())
	}
	t.Hidden = t.Shadowed > 0
	for _, s := range t.Shards {
		version := s.Identity.Version()
		sum := sha256.Sum256(binary.LittleEndian.AppendUint64(append([]byte(s.Name), version[:]...), uint64(s.Identity.Size)))
		t.ids = append(t.ids, binary.LittleEndian.Uint64(sum[:]))
	}
	t.rows = &rows{Dataset: d, shards: t.Shards, files: map[int]*once[*tableRows]{}, groups: map[groupKey]*once[[]parquet.Value]{}}
	return t, nil
}

// known opens the index that is kept; nil is that there is none of these archives as they are.
func (d *Dataset) known() (*table, error) {
	t, err := d.openTable(d.keptDir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, index.ErrCorrupt):
		d.log.Warn("the list of members that was kept cannot be used, scanning again", "cause", err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	if t.Format != formatVersion {
		d.told.Do(func() {
			d.log.Info("the list of members was written by another version of pipefs, scanning again", "archives", d.root)
		})
	}
	same := t.Format == formatVersion && len(t.Shards) == len(d.shards)
	for i := 0; same && i < len(d.shards); i++ {
		same = t.Shards[i] == Shard{d.shards[i], d.attrs[i].Identity}
	}
	if !same {
		return nil, t.Close()
	}
	return t, nil
}

func (d *Dataset) kept(ctx context.Context, open func() (*table, error)) (*table, error) {
	return names.Kept(ctx, d.keptDir(), d.log, open, func(dir string) (*table, error) { return d.write(ctx, dir) })
}

// keptDir is where the index of these archives is kept.
func (d *Dataset) keptDir() string {
	what := append([]string{d.under.Root()}, d.shards...)
	for _, name := range slices.Sorted(maps.Keys(d.o.Dirs)) {
		what = append(what, name, d.o.Dirs[name])
	}
	sum := sha256.Sum256([]byte(strings.Join(what, "\n")))
	return filepath.Join(d.o.Dir, hex.EncodeToString(sum[:8])+".members")
}

// Rescan scans the archives again if one of them has another identity, and returns what the index said before and says
// now.
func (d *Dataset) Rescan(ctx context.Context) (before, now names.Counts, err error) {
	d.rescan.Lock()
	defer d.rescan.Unlock()
	d.mu.Lock()
	err = d.stat()
	d.mu.Unlock()
	if err != nil {
		return before, now, err
	}
	next, err := d.kept(ctx, d.known)
	if err != nil {
		return before, now, err
	}
	d.stopBehind()
	defer d.startBehind()
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.table
	d.table = next
	return last.Counts, next.Counts, last.Close()
}

// Summary is that of the index.
func (d *Dataset) Summary() Summary {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.table.Summary
}

// Close implements [source.Dataset].
func (d *Dataset) Close() error {
	d.stopBehind()
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.table.Close(), d.release())
}

// release closes what the members are read through.
func (d *Dataset) release() error {
	err := d.under.Close()
	if d.o.Held != nil {
		err = errors.Join(err, d.o.Held.Close())
	}
	return err
}

// Archives returns the paths or URLs of the archives.
func (d *Dataset) Archives() []string {
	var all []string
	for _, name := range d.shards {
		all = append(all, d.under.Root()+"/"+name)
	}
	return all
}

// Root implements [source.Dataset]: the path, pattern or URL that the user gave.
func (d *Dataset) Root() string { return d.root }

// failed tells what is to be done about an index that cannot be read.
func (d *Dataset) failed(err error) error {
	if errors.Is(err, index.ErrCorrupt) {
		return fmt.Errorf("the list of members of %s: %w; remove %s and mount again", d.root, err, d.keptDir())
	}
	return err
}

// List implements [source.Tree].
func (d *Dataset) List(dir string) ([]source.Entry, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	entries, err := d.table.List(dir)
	if err == nil && d.hasMetadata(path.Join(dir, metadataName)) {
		at, _ := slices.BinarySearchFunc(entries, metadataName, func(e source.Entry, name string) int { return strings.Compare(e.Name, name) })
		entries = slices.Insert(entries, at, source.Entry{Name: metadataName})
	}
	return entries, d.failed(err)
}

// find returns the entry of a member, its archive as it was scanned, and its attributes.
func (d *Dataset) find(name string) (entry, Shard, source.Attr, error) {
	e, t, a, err := d.lookup(name)
	if err != nil || e.codec == dirCodec {
		return e, Shard{}, a, err
	}
	shard := t.Shards[e.shard]
	switch e.codec {
	case rowCodec:
		if err := t.rows.find(&e); err != nil {
			return entry{}, Shard{}, source.Attr{}, fmt.Errorf("%s/%s: %w", d.root, name, err)
		}
		fallthrough
	case pageCodec: // of one identity before and after it is located
		a.ID = t.ids[e.shard] + uint64(e.column)<<48 + uint64(e.row)
		a.Size, a.MTime = e.size, shard.Identity.MTime
	}
	return e, shard, a, nil
}

// lookup is find without locating rows of Parquet files.
func (d *Dataset) lookup(name string) (entry, *table, source.Attr, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	e, isDir, err := d.table.entry(name)
	if err != nil {
		return entry{}, nil, source.Attr{}, d.failed(err)
	}
	if isDir {
		return entry{codec: dirCodec}, nil, d.dir, nil
	}
	of := d.attrs[e.shard]
	a := source.Attr{Mode: of.Mode & 0o444, UID: of.UID, GID: of.GID}
	a.ID = d.table.ids[e.shard] + uint64(e.offset) // in the order in which they lie there
	a.Size, a.MTime, a.CTime = e.size, e.mtime, d.table.Shards[e.shard].Identity.CTime
	return e, d.table, a, nil
}

// Stat implements [source.Tree].
func (d *Dataset) Stat(name string) (source.Attr, error) {
	if b, a, err := d.openMetadata(name); b != nil || err != nil {
		return a, err
	}
	_, _, a, err := d.find(name)
	return a, err
}

// Fresh implements [source.Tree]: the index says how fresh it is.
func (d *Dataset) Fresh(name string) (source.Attr, error) { return d.Stat(name) }

// Open implements [source.Dataset].
func (d *Dataset) Open(name string) (*source.File, error) {
	if b, a, err := d.openMetadata(name); b != nil || err != nil {
		return &source.File{Identity: a.Identity, Opened: made{bytes.NewReader(b), d.root + "/" + name}}, err
	}
	e, shard, a, err := d.find(name)
	if err != nil {
		return nil, err
	}
	if e.codec == dirCodec {
		return nil, &fs.PathError{Op: "open", Path: d.root + "/" + name, Err: errors.New("no regular file")}
	}
	in, err := d.under.OpenAs(shard.Name, shard.Identity)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s/%s: its archive %s is gone: %w", d.root, name, shard.Name, source.ErrChanged)
	}
	if err != nil {
		return nil, err
	}
	f := &file{in: in, entry: e, name: name, pages: &d.pages}
	f.File = source.File{Identity: a.Identity, Opened: f}
	return &f.File, nil
}

// OpenAs implements [source.Dataset].
func (d *Dataset) OpenAs(name string, id source.Identity) (*source.File, error) {
	f, err := d.Open(name)
	if err == nil && f.Identity != id {
		f.Close()
		return nil, fmt.Errorf("%s/%s: %w", d.root, name, source.ErrChanged)
	}
	return f, err
}
