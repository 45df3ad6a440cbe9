package epoch

import (
	"bytes"
	"context"
	iofs "io/fs"
	"log/slog"
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
}

func (t *testTree) Version() (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	return t.version, nil
}

func (t *testTree) Members(dir string) (members []Member, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
	f.server, err = serve.New(serve.Options{Registry: registry, Source: directory, Dataset: directory, Workers: o.Workers, OnError: f.on, ErrorLimit: 0.5, Log: o.Log})
	testenv.Must(f, err)
	f.Cleanup(func() { f.server.Close() })
	o.Server = f.server
	f.views = New(o)
	f.Cleanup(func() { f.views.Close() })
	f.views.Use(&testTree{source: directory})
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
	var data []byte
	for int64(len(data)) < f.Size() {
		p, err := f.Read(context.Background(), int64(len(data)), most)
		if err != nil {
			return nil, err
		}
		data = append(data, p.Bytes...)
		p.Release()
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
