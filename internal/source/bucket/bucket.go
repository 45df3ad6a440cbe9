// Package bucket is a dataset in a bucket, or in any other place of objects.
//
// # Nouns
//
// A [Manifest] is the list of a place: the names, sizes, versions and times of its objects, in a
// file. [Write] lists a place and writes one. A [Bucket] is the dataset: its tree is that of
// the manifest, and the bytes of its files are those of the objects.
//
// # Names
//
// The name of an object is a path, and what stands before a slash is a directory. An object whose
// name is no path is left out, counted and logged: one with an empty part, with "." or "..", with a
// part of more than 255 bytes, or that is no UTF-8. So is an object whose name is also a directory,
// since others have it before a slash. An empty object whose name ends with a slash is a mark that
// some programs make for a directory; it is ignored.
//
// # Identity
//
// The identity of a file is made of what the list says of the object: its size, when it was
// modified, and a hash of its version (the ETag) and of the place. Each read asks for that version,
// so that the bytes of two versions are never mixed. If the object was replaced since it was listed,
// its readers get [source.ErrChanged] until the place is listed again.
package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/names"
	"github.com/pipefs/pipefs/store/blob"
)

// Options of Open.
type Options struct {
	// Manifest is the file of one that is given; it is read only. If it is empty, the place is
	// listed where need be, and the manifest is kept in Dir.
	Manifest string
	// Server tells places of one name apart: that of the server, if it is not the usual one.
	Server string
	// Dir is the directory for manifests that are kept, shared by the mounts of a user. It is
	// made if need be.
	Dir string
	// Held is closed with the Bucket, or when it cannot be opened; it may be nil.
	Held io.Closer
	// MaxAge is how old a manifest that was kept may be; a negative age is any.
	MaxAge time.Duration
	// Cache is what objects are read through; nil keeps nothing on disk.
	Cache *blockcache.Cache
	// MemoryBytes bounds the memory for blocks of open objects. Little is needed: a block is wanted again
	// within milliseconds, or not at all. 0 means DefaultMemoryBytes.
	MemoryBytes int64
	// Limit is how fast the bytes of files are read, for measurements; nil is as fast
	// as can be.
	Limit source.Limit
	// Progress is told how many objects were listed, now and then.
	Progress func(objects int64)
	Log      *slog.Logger // nil is silent
}

// Bucket is a dataset in a place of objects.
type Bucket struct {
	place blob.Objects
	o     Options
	log   *slog.Logger
	of    [sha256.Size]byte // hash of the origin of versions
	dir   source.Attr       // of directories, but for the times

	mu       sync.RWMutex // held to replace the manifest
	manifest *Manifest
	rescan   sync.Mutex // held while the place is listed

	windows  windows
	replaced atomic.Int64 // objects that were found replaced since they were listed
}

var _ source.Dataset = (*Bucket)(nil)

// Open returns the dataset in a place. The place is listed if there is no manifest of it, or if
// that is too old; cancelling ctx ends that.
func Open(ctx context.Context, place blob.Objects, o Options) (*Bucket, error) {
	b := &Bucket{place: place, o: o, log: o.Log, of: sha256.Sum256([]byte(placeName(blob.Origin(place))))}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
		b.o.Log = b.log
	}
	b.dir = source.Attr{Mode: fs.ModeDir | 0o555, UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	b.windows.init(o.MemoryBytes)
	var err error
	if o.Manifest != "" {
		b.manifest, err = b.given(o.Manifest)
	} else {
		b.manifest, err = b.kept(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, b.letGo())
	}
	return b, nil
}

func (b *Bucket) letGo() error {
	if b.o.Held == nil {
		return nil
	}
	return b.o.Held.Close()
}

// given opens a manifest that the user named.
func (b *Bucket) given(file string) (*Manifest, error) {
	m, err := OpenManifest(file)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if place := placeName(b.place.String()); m.Place != place {
		m.Close()
		return nil, fmt.Errorf("the manifest %s lists %s, and this is %s: write another one with pipefs list %s -o FILE", file, m.Place, place, place)
	}
	return m, nil
}

// Close implements [source.Dataset].
func (b *Bucket) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.manifest.Close(), b.letGo())
}

// Root implements [source.Dataset]: the path or URL of the place.
func (b *Bucket) Root() string { return b.place.String() }

// Summary is that of the manifest.
func (b *Bucket) Summary() Summary {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.manifest.Summary
}

// Replaced is how many objects were found replaced since they were listed.
func (b *Bucket) Replaced() int64 { return b.replaced.Load() }

// Object is what the manifest says of an object.
func (b *Bucket) Object(name string) (blob.Info, error) {
	i, _, err := b.find(name)
	return i, err
}

func (b *Bucket) find(name string) (blob.Info, time.Time, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	i, err := b.manifest.find(name)
	return i, b.manifest.Listed, err
}

// List implements [source.Tree].
func (b *Bucket) List(dir string) ([]source.Entry, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.manifest.list(dir)
}

// Stat implements [source.Tree]. Nothing is asked of the place.
func (b *Bucket) Stat(name string) (source.Attr, error) {
	i, listed, err := b.find(name)
	if err != nil {
		return source.Attr{}, err
	}
	a := b.dir
	if i.Dir {
		a.MTime = listed.UnixNano()
		a.CTime = a.MTime
		return a, nil
	}
	a.Mode, a.Identity = 0o444, b.identity(&i)
	return a, nil
}

// Fresh implements [source.Tree]: the manifest says how fresh it is.
func (b *Bucket) Fresh(name string) (source.Attr, error) { return b.Stat(name) }

// identity is that of an object: size and time, and as ID a hash of the place and the version.
func (b *Bucket) identity(i *blob.Info) source.Identity {
	var text [sha256.Size + 64]byte
	sum := sha256.Sum256(append(append(text[:0], b.of[:]...), i.Version...))
	modified := i.Modified.UnixNano()
	return source.Identity{ID: binary.LittleEndian.Uint64(sum[:]), Size: i.Size, MTime: modified, CTime: modified}
}

// Open implements [source.Dataset]. Nothing is asked of the place before the first read.
func (b *Bucket) Open(name string) (*source.File, error) {
	i, _, err := b.find(name)
	if err != nil {
		return nil, err
	}
	if i.Dir {
		return nil, &fs.PathError{Op: "open", Path: b.name(name), Err: errors.New("no regular file")}
	}
	f := &file{of: b, name: name, body: b.o.Cache.Object(b.place, i), block: blockOf(i.Size)}
	f.File = source.File{Identity: b.identity(&i), Opened: f}
	return &f.File, nil
}

// OpenAs implements [source.Dataset].
func (b *Bucket) OpenAs(name string, id source.Identity) (*source.File, error) {
	f, err := b.Open(name)
	if err == nil && f.Identity != id {
		f.Close()
		return nil, fmt.Errorf("%s: %w", b.name(name), source.ErrChanged)
	}
	return f, err
}

// name is the URL of an object.
func (b *Bucket) name(name string) string { return placeName(b.place.String()) + "/" + name }

// changed takes note of an object that is no longer the one that was listed.
func (b *Bucket) changed(f *file, cause error) error {
	if f.changed.CompareAndSwap(false, true) {
		switch b.replaced.Add(1) {
		case 1:
			b.log.Warn("an object was replaced or deleted since it was listed, and cannot be read: pipefs refresh MNT lists the place again",
				"object", f.Name(), "listed", b.Summary().Listed.Format(time.DateTime), "cause", cause)
		default:
			b.log.Info("an object was replaced or deleted since it was listed; see pipefs refresh", "object", f.Name())
		}
	}
	return fmt.Errorf("%s: %w", f.Name(), source.ErrChanged)
}

// keptDir is where the manifest of the place is kept.
func (b *Bucket) keptDir() string {
	sum := sha256.Sum256([]byte(placeName(b.place.String()) + "\n" + b.o.Server))
	return filepath.Join(b.o.Dir, hex.EncodeToString(sum[:8])+".names")
}

// kept opens the manifest that is kept of the place, listed again where it is too old.
func (b *Bucket) kept(ctx context.Context) (*Manifest, error) {
	return b.keep(ctx, func() (*Manifest, error) { return b.openKept(b.o.MaxAge) })
}

// listed lists the place again, whatever is kept, unless it cannot have changed.
func (b *Bucket) listed(ctx context.Context) (*Manifest, error) {
	if _, snapshot := b.place.(blob.Snapshot); snapshot {
		return b.kept(ctx)
	}
	return b.keep(ctx, func() (*Manifest, error) { return nil, nil })
}

func (b *Bucket) keep(ctx context.Context, open func() (*Manifest, error)) (*Manifest, error) {
	return names.Kept(ctx, b.keptDir(), b.log, open, func(dir string) (*Manifest, error) { return b.write(ctx, dir) })
}

// openKept opens the manifest that is kept; nil is that there is none that is young enough.
func (b *Bucket) openKept(most time.Duration) (*Manifest, error) {
	if _, snapshot := b.place.(blob.Snapshot); snapshot {
		most = -1
	}
	m, err := OpenManifest(b.keptDir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, ErrManifest):
		b.log.Warn("the list of names that was kept cannot be used, listing again", "cause", err)
		return nil, nil
	case err != nil:
		return nil, err
	case m.Place != placeName(b.place.String()), most >= 0 && time.Since(m.Listed) > most:
		m.Close()
		return nil, nil
	}
	return m, nil
}

// write lists the place into a directory, and opens it. Where it is the one that is kept, the caller has
// the lock.
func (b *Bucket) write(ctx context.Context, dir string) (*Manifest, error) {
	began := time.Now()
	s, err := Write(ctx, b.place, dir, WriteOptions{Progress: b.o.Progress, Log: b.log})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", b.place, err)
	}
	b.log.Info("listed", "place", s.Place, "objects", s.Objects, "bytes", s.Bytes, "left_out", s.LeftOut, "took", time.Since(began).Round(time.Millisecond))
	return OpenManifest(dir)
}

// Rescan lists the place again, or opens the manifest that was given again, and returns what
// the list said before and what it says now. The tree is the new one from then on.
func (b *Bucket) Rescan(ctx context.Context) (before, now Summary, err error) {
	return b.renew(func() (*Manifest, error) {
		if b.o.Manifest != "" {
			return b.given(b.o.Manifest)
		}
		return b.listed(ctx)
	})
}

// Refresh makes the list young enough if it is not, by a list that another mount made where there
// is one. It reports whether there is a new one.
func (b *Bucket) Refresh(ctx context.Context) (bool, error) {
	if b.o.Manifest != "" || b.o.MaxAge < 0 || time.Since(b.Summary().Listed) <= b.o.MaxAge {
		return false, nil
	}
	_, _, err := b.renew(func() (*Manifest, error) { return b.kept(ctx) })
	return err == nil, err
}

// renew takes over another manifest.
func (b *Bucket) renew(open func() (*Manifest, error)) (before, now Summary, err error) {
	b.rescan.Lock()
	defer b.rescan.Unlock()
	next, err := open()
	if err != nil {
		return Summary{}, Summary{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.manifest
	b.manifest = next
	return last.Summary, next.Summary, last.Close()
}
