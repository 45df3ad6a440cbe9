package mountd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/archive"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

const (
	// listedLately is how old the list of a bucket may be for a program that mounts nothing.
	listedLately = 10 * time.Minute
	// peekDirs and peekNames bound a peek: the directories that are listed, and the names of each.
	peekDirs, peekNames = 64, 10_000
)

// SourceOptions say what [OpenSource] opens, and how files are made of it.
type SourceOptions struct {
	// Path is the dataset or store, as the user wrote it: a path or a URL.
	Path   string
	Remote remote.Access // of a URL
	// StoreOnly refuses a dataset.
	StoreOnly bool
	// Dataset of a store; empty where it is not known.
	Dataset string
	// Classes is a list of classes of a dataset, see [source.Classes]; or empty.
	Classes string
	Roles   transcode.Roles
	Limits  transcode.Limits
	Workers int // that make files at once; 0 is one a core
	// Peek lists the first names of the first directories only.
	Peek bool
	// Registry makes files; nil makes them as the store has them.
	Registry *transcode.Registry
	Log      *slog.Logger // nil is silent
	// Listed is told how many objects of a bucket are listed so far; nil tells nobody.
	Listed func(objects int64)
}

// Source is a dataset or a store, opened to be looked at, and to make files of without any mount.
type Source struct {
	Path     string         // absolute, or a URL
	Dataset  source.Dataset // the dataset, or that of the store, or nil
	Store    *store.Store   // nil for a dataset
	Tree     source.Tree
	Registry *transcode.Registry
	Server   *serve.Server
	Notes    []string // what of SourceOptions.Classes and of the dataset does not belong together
	roles    transcode.Roles
	log      *slog.Logger
	peek     bool
	done     func() // ends reading from a URL
	// unpaired tells of pictures that have no mask, although they match a pair; empty: there are none.
	unpaired string
}

// OpenSource opens whichever of the two is at a path or URL. Cancelling ctx ends all reads from a
// URL. Roles that match no sample are an error of usage, see package usage.
func OpenSource(ctx context.Context, o SourceOptions) (_ *Source, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Source{Registry: o.Registry, roles: o.Roles, log: o.Log, peek: o.Peek, done: func() {}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.Path, err = remote.Place(o.Path); err == nil && blob.IsHub(s.Path) {
		s.Path, err = pinHub(ctx, o.Remote, s.Path)
	}
	if err != nil {
		return nil, err
	}
	if err := statSource(s.Path); err != nil {
		return nil, err
	}
	files, done, err := OpenFiles(ctx, o.Remote, s.Path, remote.Options{Log: o.Log})
	if err != nil {
		return nil, err
	}
	s.done = done
	s.Store, err = store.Open(s.Path, store.Options{Logger: o.Log, FS: files, IndexDir: IndexDir(o.Remote, s.Path)})
	from := o.Dataset
	switch is := err == nil; {
	case !is && !errors.Is(err, store.ErrNotStore):
		return nil, fmt.Errorf("store %s: %w", s.Path, err)
	case !is && o.StoreOnly:
		return nil, usage.Errorf("%s is no store; pipefs pack makes one of a dataset: pipefs pack DATASET STORE", s.Path)
	case !is && o.Dataset != "":
		return nil, usage.Errorf("--dataset goes with a store, and %s is none: leave it out", s.Path)
	case is:
		s.Tree = serve.StoreTree(s.Store)
	default:
		s.Store, from = nil, s.Path
	}
	if from != "" {
		names := 0
		if o.Peek {
			names = peekNames
		}
		list := bucket.Options{MaxAge: listedLately, Log: o.Log, Progress: o.Listed}
		if s.Dataset, err = OpenDataset(ctx, o.Remote, from, source.Options{Names: names}, list); err != nil {
			return nil, err
		}
	}
	if o.Classes != "" {
		if s.Store != nil {
			return nil, classesOfStore(o.Path)
		}
		c, err := source.WithClasses(s.Dataset, o.Classes)
		if err != nil {
			return nil, err
		}
		s.Dataset, s.Notes = c, c.Notes
	}
	if s.Store == nil {
		s.Tree = s.Dataset
	}
	if s.Registry == nil {
		s.Registry = Registry(o.Limits, s.Store, nil)
	}
	if !o.Peek {
		if err := s.checkRoles(); err != nil {
			return nil, err
		}
	}
	s.Server, err = serve.New(serve.Options{
		Registry: s.Registry, Roles: o.Roles, Source: s.Tree, Dataset: s.Dataset, Store: s.Store, Workers: o.Workers, Log: o.Log,
	})
	return s, err
}

// Close ends everything that was opened.
func (s *Source) Close() {
	if s.Server != nil {
		s.Server.Close()
	}
	if s.Store != nil {
		s.Store.Close()
	}
	if s.Dataset != nil {
		s.Dataset.Close()
	}
	s.done()
}

// Files are the names that views list.
func (s *Source) Files() (*pfs.FS, error) {
	return pfs.New(pfs.Options{Registry: s.Registry, Server: s.Server, Roles: s.roles, Log: s.log})
}

// Gaps are those of the usual views, and others.
func (s *Source) Gaps(others ...string) (*Gaps, error) {
	return FindGaps(s.Server, s.Registry, Unique(append(UsualViews(s.Registry), others...)))
}

// Rebuilt counts the originals that a mount rebuilds when they are first read. None are where
// the dataset that was packed still is where it was.
func (s *Source) Rebuilt() (int64, error) {
	n, err := s.Server.Rebuilt()
	if err != nil || n == 0 || remote.Is(s.Path) {
		return n, err
	}
	if d := OpenNearby(s.Store, s.Path, source.Options{}); d != nil {
		return 0, d.Close()
	}
	return n, nil
}

// checkRoles refuses patterns that are malformed, and those that match no sample: they
// are mistyped, and what they were meant for would be harmed without a word.
func (s *Source) checkRoles() error {
	if err := s.roles.Check(); err != nil {
		return usage.With(err)
	}
	if err := s.checkPairs(); err != nil {
		return err
	}
	left := s.roles.Unmatched(s.samples())
	if len(left) == 0 {
		return nil
	}
	flag := "images"
	if slices.Contains(s.roles.Masks, left[0]) {
		flag = "masks"
	}
	hint := "a pattern without a slash is compared with the names of samples in every directory, one with a slash with their paths in the dataset"
	dir := path.Clean(left[0])
	if a, err := s.Tree.Stat(dir); err == nil && a.Mode.IsDir() {
		hint = fmt.Sprintf("it is a directory; for all that is in it write --%s '%s/**'", flag, dir)
	}
	return usage.Errorf("--%s '%s' matches no sample of %s; %s", flag, left[0], s.Path, hint)
}

// checkPairs refuses pairs of which no picture has its mask, and looks for pictures that have none.
func (s *Source) checkPairs() error {
	if len(s.roles.Pairs) == 0 {
		return nil
	}
	samples := map[string]bool{}
	for sample := range s.samples() {
		samples[sample] = true
	}
	for _, pair := range s.roles.Pairs {
		alone, found, without, example := transcode.Roles{Pairs: []transcode.Pair{pair}}, 0, 0, ""
		for sample := range samples {
			switch mask := alone.MaskOf(sample); {
			case mask == "" || s.roles.MaskOf(sample) == "":
			case samples[mask]:
				found++
			case s.roles.MaskOf(sample) == mask:
				without++
				if example == "" || sample < example {
					example = sample
				}
			}
		}
		lost := fmt.Sprintf("%d pictures have no mask, such as %s: there is no %s", without, example, alone.MaskOf(example))
		switch {
		case found == 0 && without == 0:
			return usage.Errorf("--pair '%s' matches no picture of %s; its paths begin in the dataset, and have no wildcards but * and **", pair, s.Path)
		case found == 0:
			return usage.Errorf("--pair '%s': %s", pair, lost)
		case without > 0:
			s.unpaired = fmt.Sprintf("--pair '%s': %s. Epochs with one of them have no masks: name the others in a list (--list)", pair, lost)
		}
	}
	return nil
}

// ResolveSource makes the path of a dataset or store what the kernel will call it. A URL stays
// as it is, except that one of the Hub gets the commit that its revision is now.
func ResolveSource(ctx context.Context, a remote.Access, given string) (string, error) {
	if remote.Is(given) {
		place, err := remote.Place(given)
		if err != nil || !blob.IsHub(place) {
			return place, err
		}
		return pinHub(ctx, a, place)
	}
	if err := statSource(given); err != nil {
		return "", err
	}
	if dir, pattern, is := archivesAt(given); is && archive.Pattern(pattern) {
		dir, err := mounts.Resolve(dir)
		return filepath.Join(dir, pattern), err
	}
	return mounts.Resolve(given)
}

// statSource says what is wrong with a path that is to be a dataset or a store. What is wrong
// with a URL is told by who opens it.
func statSource(path string) error {
	if remote.Is(path) {
		return nil
	}
	info, err := mounts.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && archive.Pattern(path) {
		dir, _ := archive.Split(path)
		path = cmp.Or(dir, ".")
		info, err = mounts.Stat(path)
	}
	if err == nil {
		err = mounts.Probe(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		meant := ""
		if near := neighbour(path); near != "" {
			meant = "; did you mean " + near + "?"
		}
		return fmt.Errorf("there is no dataset or store at %s%s", path, meant)
	case mounts.Dead(err):
		how := "umount -l " + path
		if abs, err := filepath.Abs(path); err == nil {
			if m, err := mounts.Holding(abs); err == nil && m != nil && m.Ours() {
				how = "pipefs umount " + m.Mountpoint
			}
		}
		return fmt.Errorf("%s lies in a mount whose daemon is gone; unmount that first: %s", path, how)
	case err != nil:
		return fmt.Errorf("dataset or store: %w", err)
	case !info.IsDir() && !source.Mountable(path):
		return source.NotDirectory(path)
	}
	return nil
}

// neighbour is the directory beside a path that does not exist which was perhaps meant; "" is
// none.
func neighbour(path string) string {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return ""
	}
	defer d.Close()
	entries, _ := d.ReadDir(peekNames) // what there is of it
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if meant := transcode.Nearest(filepath.Base(path), names...); meant != "" {
		return filepath.Join(filepath.Dir(path), meant)
	}
	return ""
}

// OpenDataset opens the dataset at a path or URL. One at a URL is listed, unless there is a list
// that is young enough for list.
func OpenDataset(ctx context.Context, a remote.Access, at string, o source.Options, list bucket.Options) (source.Dataset, error) {
	under := func(dir string) (source.Dataset, error) { return openUnder(ctx, a, dir, o, list) }
	return openOver(ctx, at, under, archive.Options{Log: list.Log, Progress: func(members int64, _ float64) {
		if list.Progress != nil {
			list.Progress(members)
		}
	}})
}

// openUnder opens a directory or a bucket.
func openUnder(ctx context.Context, a remote.Access, at string, o source.Options, list bucket.Options) (source.Dataset, error) {
	if !remote.Is(at) {
		d, err := source.Open(at, o)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	place, err := Connect(ctx, a, at, list.Log)
	if err != nil {
		return nil, err
	}
	b, err := OpenBucket(ctx, place, list)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Connect reaches the place of a path or URL. That it cannot is an error of usage.
func Connect(ctx context.Context, a remote.Access, at string, log *slog.Logger) (place blob.Objects, err error) {
	if a.Blob.Log == nil {
		a.Blob.Log = log
	}
	if remote.Is(at) {
		place, err = a.Connect(ctx, at)
	} else {
		place, err = blob.Open(ctx, at, a.Blob)
	}
	return place, usage.With(err)
}

// WithCacheDir is how a URL is reached where no directory was named: what is known of it is in the cache
// directory of the user.
func WithCacheDir(a remote.Access) remote.Access {
	if a.Dir != "" {
		return a
	}
	if root, err := CacheRoot(); err == nil {
		a.Dir = root.Dir()
	}
	return a
}

// OpenFiles is the file system that a place lies in, and what ends reading from it.
func OpenFiles(ctx context.Context, a remote.Access, place string, o remote.Options) (vfs.FS, func(), error) {
	if !remote.Is(place) {
		return vfs.OS, func() {}, nil
	}
	files, err := WithCacheDir(a).Open(ctx, place, o)
	if err != nil {
		return nil, nil, err
	}
	return files, func() { _ = files.Close() }, nil
}

// IndexDir is where the index of a store is; "" is in the store.
func IndexDir(a remote.Access, place string) string {
	if !remote.Is(place) {
		return ""
	}
	return WithCacheDir(a).Index(place)
}
