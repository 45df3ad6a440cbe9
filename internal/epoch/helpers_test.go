package epoch

import (
	"bytes"
	"context"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func split(path string) []string { return strings.Split(path, "/") }

// testTree lists a directory anew each time its version is asked for.
type testTree struct {
	source *source.Directory

	mu      sync.Mutex
	version uint64
	paths   []string
	still   bool             // the version stays what it is
	broken  map[string]error // by directory; that of the version by "version"
}

func (t *testTree) Version() (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.still {
		t.version++
	}
	return t.version, t.broken["version"]
}

func (t *testTree) Members(dir string) (members []Member, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.broken[dir]; err != nil {
		return nil, err
	}
	entries, err := t.source.List(dir)
	if err != nil {
		return nil, iofs.ErrNotExist
	}
	slices.SortFunc(entries, func(a, b source.Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		id := slices.Index(t.paths, name)
		if id < 0 {
			id = len(t.paths)
			t.paths = append(t.paths, name)
		}
		members = append(members, Member{Name: e.Name, ID: uint32(id), Dir: e.Dir})
	}
	return members, nil
}

func (t *testTree) Path(id uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paths[id]
}

func (t *testTree) Listed(p transcode.Pipeline, name string) (string, error) {
	return strings.TrimSuffix(name, path.Ext(name)) + ".bmp", nil
}

// fixture is a dataset of small pictures, and the epoch views of it.
type fixture struct {
	*testing.T
	root   string
	server *serve.Server
	views  *Views
	tree   *testTree
	log    *testenv.Log
	on     serve.OnError
}

func newFixture(t *testing.T, classes map[string]int, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{T: t, root: t.TempDir(), log: &testenv.Log{}}
	seed := uint64(0)
	for class, n := range classes {
		testenv.Must(t, os.MkdirAll(filepath.Join(f.root, class), 0o755))
		for i := range n {
			seed++
			f.write(path.Join(class, string(rune('a'+i%26))+strings.Repeat("x", i/26)+".jpg"), seed)
		}
	}
	f.serve(source.Options{}, change)
	return f
}

// serve makes the views of what was written, read with these options.
func (f *fixture) serve(from source.Options, change func(*Options)) {
	f.Helper()
	directory, err := source.Open(f.root, from)
	testenv.Must(f, err)
	f.Cleanup(func() { directory.Close() })
	registry := codecs.Default(transcode.Limits{})
	o := Options{Registry: registry, Log: slog.New(slog.NewTextHandler(f.log, nil))}
	if change != nil {
		change(&o)
	}
	f.server, err = serve.New(serve.Options{Registry: registry, Source: directory, Dataset: directory, Workers: o.Workers, OnError: f.on, ErrorLimit: 0.5, Roles: o.Roles, Log: o.Log})
	testenv.Must(f, err)
	f.Cleanup(func() { f.server.Close() })
	o.Server = f.server
	views := New(o)
	f.views, f.tree = views, &testTree{source: directory}
	f.Cleanup(func() { ends(f, views) })
	f.views.Use(f.tree)
}

// ends closes views that nobody reads, and wants all memory to be counted, and to be given back.
func ends(t testing.TB, v *Views) {
	t.Helper()
	v.Close()
	m := v.maker
	held := func() (n int64) {
		for _, b := range m.batches {
			if n += int64(cap(b.data)); b.pins != 0 || b.complete() && b.err != nil && b.data != nil {
				t.Errorf("batch %d has %d readers, and %d bytes; its error is %v", b.index, b.pins, len(b.data), b.err)
			}
		}
		for _, data := range m.unused {
			n += int64(cap(data))
		}
		return n
	}
	for _, b := range slices.Concat(m.queue, slices.Collect(maps.Values(m.batches))) {
		if b.view.dropped && (b.complete() || b.begun == 0) {
			t.Errorf("batch %d was dropped and is remembered", b.index)
		}
	}
	if n := held(); n != m.held || n > m.o.Budget || m.working != 0 {
		t.Errorf("%d bytes are held, counted as %d, of a budget of %d; %d workers are at work", n, m.held, m.o.Budget, m.working)
	}
	m.giveBack()
	if s := v.Stats(); held() != m.held || len(m.unused) > 0 || s.Early != s.Used+s.Wasted {
		t.Errorf("after the end: %+v", s)
	}
}

// told notes which samples the system is told to read, and which are resolved. A sample waits, or fails, where before says so.
type told struct {
	Server
	before func(path string) error

	mu                sync.Mutex
	fetched, resolved []string
}

func (s *told) Fetch(ctx context.Context, key serve.Key, f serve.File, v transcode.Pipeline) {
	s.Server.Fetch(ctx, key, f, v)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = append(s.fetched, f.Path)
}

func (s *told) Resolve(ctx context.Context, key serve.Key, f serve.File, v transcode.Pipeline, most serve.Effort) (*serve.Handle, error) {
	s.mu.Lock()
	s.resolved = append(s.resolved, f.Path)
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(f.Path); err != nil {
			return nil, err
		}
	}
	return s.Server.Resolve(ctx, key, f, v, most)
}

// fetches wants so many samples to be fetched since the last call, each once. It returns them.
func (s *told) fetches(t *testing.T, want int) (got []string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(slices.Compact(slices.Sorted(slices.Values(s.fetched)))); n != want || len(s.fetched) != n {
			return fmt.Errorf("%d samples are fetched, %d of them different, want %d", len(s.fetched), n, want)
		}
		got, s.fetched = s.fetched, nil
		return nil
	})
	return got
}

// made wants so many batches to be made, and nobody to make more.
func (f *fixture) made(n int) {
	f.Helper()
	testenv.Eventually(f, func() error {
		m := f.views.maker
		m.mu.Lock()
		defer m.mu.Unlock()
		if got := m.stats.made.Load(); got != int64(n) || m.working != 0 {
			return fmt.Errorf("%d batches were made, want %d", got, n)
		}
		return nil
	})
}

func (f *fixture) write(name string, seed uint64) {
	f.Helper()
	testenv.Must(f, pictures.Write(filepath.Join(f.root, name), pictures.Photo(40+int(seed%7), 30+int(seed%5), seed)))
}

// view is the epoch view with a path below .epoch.
func (f *fixture) view(name string) *View {
	f.Helper()
	p, err := ParsePath(split(name))
	testenv.Must(f, err)
	pipeline, err := f.views.o.Registry.ParseRandom(p.View)
	testenv.Must(f, err)
	if pipeline.Random() {
		pipeline = pipeline.In(p.Seed, p.Epoch)
	}
	v, err := f.views.Find(p, pipeline)
	testenv.Must(f, err)
	return v
}

// read reads a file, so many bytes at once.
func read(v *View, name string, most int) ([]byte, error) {
	f, err := v.File(name)
	if err != nil {
		return nil, err
	}
	return readAll(f, most)
}

func readAll(f *File, most int) (data []byte, err error) {
	for int64(len(data)) < f.Size() {
		p, err := f.Read(context.Background(), int64(len(data)), most)
		if err != nil {
			return nil, err
		}
		data = append(data, p.Bytes...)
		p.Release()
	}
	for _, off := range []int64{-1, f.Size(), f.Size() + 1} {
		if p, err := f.Read(context.Background(), off, most); p.Bytes != nil || err != nil {
			return nil, fmt.Errorf("%d bytes at %d of %d, %w", len(p.Bytes), off, f.Size(), err)
		}
	}
	return data, nil
}

func (f *fixture) read(v *View, name string) []byte {
	f.Helper()
	data, err := read(v, name, 100_000)
	testenv.Must(f, err)
	return data
}

// sample is a file of a view, made alone, without its header.
func (f *fixture) sample(p transcode.Pipeline, name string) []byte {
	f.Helper()
	a, err := f.server.Stat(name, false)
	testenv.Must(f, err)
	h, err := f.server.Resolve(context.Background(), 1, serve.File{Path: name, Identity: a.Identity}, p, serve.Sized)
	testenv.Must(f, err)
	made, err := h.Make(context.Background())
	testenv.Must(f, err)
	defer made.Release()
	return bytes.Clone(made.Split.Data[transcode.ArrayHeaderSize:])
}
