package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/source"
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
