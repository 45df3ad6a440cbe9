package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestMain wants no goroutine to be left when all tests have ended, and no descriptor of a file that they made.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range fds {
			file, _ := os.Readlink(fd) // in a temporary directory, a memfd, of a tmpfs, or the tmpfs itself
			if strings.HasPrefix(file, filepath.Join(os.TempDir(), "Test")) || strings.HasPrefix(file, "/memfd:pipefs") || strings.HasPrefix(file, "/#") || file == "/" {
				fmt.Println("stays open:", file)
				code |= 1
			}
		}
		os.Exit(code)
	}))
}

var registry = codecs.Default(transcode.Limits{})

// views that between them take every way a file can be made.
var views = []string{"original", "scan1", "scan5", "scan10", "bmp", "npy", "png", "resize64-bmp", "resize64-jpeg90", "scan2-resize32-npy",
	"resize64-crop48-npy", "resize64-grey-ppm", "half-bmp", "half-crop20-chw-npy", "ppm"}

// writeDataset makes a few samples and a file that is none.
func writeDataset(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for i, name := range []string{"a.jpg", "b.jpg", "c.png"} {
		testenv.Must(t, pictures.Write(filepath.Join(root, name), pictures.Photo(120+i, 90, uint64(i))))
	}
	testenv.Must(t, os.WriteFile(filepath.Join(root, "labels.json"), []byte("{}"), 0o644))
	return root
}

// fixture is a server over a dataset. What it resolved it remembers by key, as a mount does.
type fixture struct {
	*Server
	root    string
	handles *sync.Map
}

func (f fixture) Stat(name string) (source.Attr, error) { return f.Server.Stat(name, false) }

func (f fixture) Resolve(ctx context.Context, key Key, file File, v transcode.Pipeline) (*Handle, error) {
	h, err := f.Server.Resolve(ctx, key, file, v, Sized)
	if err == nil {
		f.handles.Store(key, h)
	}
	return h, err
}

func (f fixture) Open(ctx context.Context, key Key, file File, v transcode.Pipeline) (*Content, error) {
	if known, ok := f.handles.Load(key); ok && known.(*Handle).file == file && known.(*Handle).view.String() == v.String() {
		return known.(*Handle).Open(ctx)
	}
	h, err := f.Resolve(ctx, key, file, v)
	if err != nil {
		return nil, err
	}
	return h.Open(ctx)
}

func (f fixture) Acquire(key Key) *Content { return (&Handle{server: f.Server, key: key}).Cached() }

func (f fixture) Drop(key Key) { (&Handle{server: f.Server, key: key}).Drop() }

// planned resolves a file without making it.
func (f fixture) planned(t testing.TB, name, spec string) *Handle {
	t.Helper()
	h, err := f.Server.Resolve(t.Context(), 0, f.file(t, name), view(t, spec), Planned)
	testenv.Must(t, err)
	return h
}

// forgetResults empties the cache of results.
func (f fixture) forgetResults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.results.Clear()
}

func newFixture(t testing.TB, root string, change func(*Options)) fixture {
	t.Helper()
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	o := Options{Registry: registry, Source: d, Dataset: d}
	if change != nil {
		change(&o)
	}
	p, err := New(o)
	testenv.Must(t, err)
	p.sources.poison, p.outputs.poison = true, true
	t.Cleanup(func() {
		testenv.Must(t, p.Close())
		p.checkIdle(t.Errorf)
		d.Close()
	})
	return fixture{p, root, &sync.Map{}}
}

// checkIdle wants nothing to be taken when a server is closed and nobody reads.
func (s *Server) checkIdle(complain func(format string, args ...any)) {
	turns := s.aheads.limiter.compute
	for l, places := range map[*limiter]int{s.readers: s.o.Workers, s.idlers: s.o.Workers, s.loaders: Loading(s.o.Workers), s.aheads.limiter: MaxAhead, turns: s.o.Workers} {
		if !l.places.TryAcquire(int64(places)) || l != turns && !l.memory.TryAcquire(l.bytes) {
			complain("places or memory for work stay taken")
		}
	}
	if !s.keeper.budget.TryAcquire(s.keeper.limit) || s.memfds.held.Load() != 0 || len(s.aheads.byKey) != 0 || s.waiting.Load() != 0 {
		complain("%d bytes of memfds and %d loaded files stay, and %d readers are said to wait", s.memfds.held.Load(), len(s.aheads.byKey), s.waiting.Load())
	}
	for _, key := range s.results.Keys() {
		if made, _ := s.results.Get(key); !made.complete() || made.holders.Load() != 1 {
			complain("%s of %s is held %d times", key.plan, key.file.Path, made.holders.Load())
		}
	}
	for i := range s.cache.shards {
		if shard := &s.cache.shards[i]; len(shard.byKey) > 0 || shard.policy.Stats().Samples > 0 {
			complain("%d contents stay in the cache; its policy has %+v", len(shard.byKey), shard.policy.Stats())
		}
	}
}

func openOverlay(t testing.TB, dir string, max int64) *store.Overlay {
	t.Helper()
	o, err := store.OpenOverlay(dir, store.OverlayOptions{MaxBytes: max})
	testenv.Must(t, err)
	return o
}

func (f fixture) file(t testing.TB, name string) File {
	t.Helper()
	a, err := f.Stat(name)
	testenv.Must(t, err)
	return File{Path: name, Identity: a.Identity}
}

func view(t testing.TB, spec string) transcode.Pipeline {
	t.Helper()
	v, err := registry.Parse(spec)
	testenv.Must(t, err)
	return v
}

// read opens a file in a view and reads it whole, in pieces.
func (f fixture) read(key Key, file File, v transcode.Pipeline) ([]byte, error) {
	c, err := f.Open(context.Background(), key, file, v)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	return io.ReadAll(io.NewSectionReader(c, 0, c.Size()+10))
}

// want computes the view by the plan alone.
func want(t testing.TB, root, name string, v transcode.Pipeline) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root, name))
	testenv.Must(t, err)
	if !registry.IsSample(name) {
		return src
	}
	info, err := registry.ProbeBytes(src)
	testenv.Must(t, err)
	plan := registry.Plan(v, info, transcode.Auto)
	if plan.Unchanged() {
		return src
	}
	out, err := plan.Run(context.Background(), src)
	testenv.Must(t, err)
	return out
}

// TestEveryViewFromEverywhere reads all views from all places they can come
// from: they are the same bytes, and of the size that was promised.
func TestEveryViewFromEverywhere(t *testing.T) {
	root := writeDataset(t)
	packed := filepath.Join(t.TempDir(), "store")
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	pack := pack.Dataset{Registry: registry, Dir: d, Originals: pack.Drop}
	if _, err := store.Pack(context.Background(), packed, pack, pack, store.PackOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(packed, store.Options{})
	testenv.Must(t, err)
	defer s.Close()
	overlay := openOverlay(t, filepath.Join(t.TempDir(), "overlay"), 0)
	defer overlay.Close()

	places := map[string]func(*Options){
		"dataset":            nil,
		"dataset, overlay":   func(o *Options) { o.Overlay = overlay },
		"overlay again":      func(o *Options) { o.Overlay = overlay },
		"dataset and store":  func(o *Options) { o.Store = s },
		"store with dataset": func(o *Options) { o.Store, o.Source = s, StoreTree(s) },
		"store alone":        func(o *Options) { o.Store, o.Source, o.Dataset = s, StoreTree(s), nil },
		"memfd":              func(o *Options) { o.Memfd = true },
	}
	for place, change := range places {
		t.Run(place, func(t *testing.T) {
			f := newFixture(t, root, change)
			entries, err := f.List("")
			if err != nil || len(entries) != 4 {
				t.Fatalf("listed %v, %v", entries, err)
			}
			for i, spec := range views {
				v := view(t, spec)
				for j, e := range entries {
					file := f.file(t, e.Name)
					wanted := want(t, root, e.Name, v)
					result, err := f.Resolve(context.Background(), 0, file, v)
					if err != nil {
						t.Fatalf("%s of %s: %v", spec, e.Name, err)
					}
					got, err := f.read(Key(i*10+j), file, v)
					if place == "store alone" && result.Unchanged() && filepath.Ext(e.Name) == ".jpg" {
						if !errors.Is(err, errNoOriginal) {
							t.Errorf("original that was not kept: %v", err)
						}
						continue
					}
					if err != nil {
						t.Fatalf("%s of %s: %v", spec, e.Name, err)
					}
					if int64(len(got)) != result.Size() || !bytes.Equal(got, wanted) {
						t.Errorf("%s of %s: %d bytes, promised %d, want %d", spec, e.Name, len(got), result.Size(), len(wanted))
					}
				}
			}
			if s := f.Stats().Mix; place == "dataset" && s.Computed+s.Materialized > 0 {
				t.Errorf("there was no choice: %+v", s)
			}
		})
	}
}

// TestPixelPrefixes wants a view to begin with the pixels of another one that are kept.
func TestPixelPrefixes(t *testing.T) {
	overlay := openOverlay(t, filepath.Join(t.TempDir(), "overlay"), 0)
	defer overlay.Close()
	f := newFixture(t, writeDataset(t), func(o *Options) { o.Overlay = overlay })
	for i, spec := range []string{"resize64-bmp", "half-ppm"} {
		if _, err := f.read(Key(i), f.file(t, "a.jpg"), view(t, spec)); err != nil {
			t.Fatal(err)
		}
	}
	f.keeper.close()
	key := Key(10)
	for spec, want := range map[string]string{
		"resize64-crop48-npy":      "decode-resize64-bmp@",
		"resize64-grey-ppm":        "decode-resize64-bmp@",
		"resize64-ppm":             "decode-resize64-bmp@",
		"resize64-rrc32-hflip-npy": "decode-resize64-bmp@",
		"half-chw-npy":             "half-ppm@",
		"half-crop20-npy":          "half-ppm@",
		"resize64-png":             "", // may have metadata
		"resize32-npy":             "",
		"crop48-resize64-npy":      "",
		"upright-resize64-npy":     "decode-resize64-bmp@", // it is upright already
	} {
		v, err := registry.ParseRandom(spec)
		testenv.Must(t, err)
		key++
		h, err := f.Server.Resolve(t.Context(), key, f.file(t, "a.jpg"), v.In(1, 2), Planned)
		testenv.Must(t, err)
		from := f.candidates(h)
		begin := from.longest(h).key
		if begin == transcode.Original {
			begin = ""
		}
		if !strings.HasPrefix(begin, want) || begin != "" && want == "" {
			t.Errorf("%s begins with %q, want %q", spec, begin, want)
		}
		got, err := f.read(key, f.file(t, "a.jpg"), v.In(1, 2))
		testenv.Must(t, err)
		src, err := os.ReadFile(filepath.Join(f.root, "a.jpg"))
		testenv.Must(t, err)
		whole, err := h.plan.Run(t.Context(), src)
		testenv.Must(t, err)
		if !bytes.Equal(got, whole) {
			t.Errorf("%s: other bytes than from the original", spec)
		}
	}
}

func TestChangedSource(t *testing.T) {
	for _, spec := range []string{"original", "scan5", "bmp", "resize64-jpeg90"} {
		t.Run(spec, func(t *testing.T) {
			f := newFixture(t, writeDataset(t), nil)
			file, v := f.file(t, "a.jpg"), view(t, spec)
			if spec != "original" {
				// known by its header: the change must be noticed all the same
				if _, err := f.Resolve(context.Background(), 0, file, v); err != nil {
					t.Fatal(err)
				}
				f.forgetResults()
			}
			b, err := os.ReadFile(filepath.Join(f.root, "b.jpg"))
			testenv.Must(t, err)
			testenv.Must(t, os.WriteFile(filepath.Join(f.root, "a.jpg"), b, 0o644))
			if _, err := f.read(1, file, v); !errors.Is(err, source.ErrChanged) {
				t.Errorf("rewritten: %v, want ErrChanged", err)
			}
			if got, err := f.read(2, f.file(t, "a.jpg"), v); err != nil || !bytes.Equal(got, want(t, f.root, "a.jpg", v)) {
				t.Errorf("looked up again: %d bytes, %v", len(got), err)
			}
			testenv.Must(t, os.Remove(filepath.Join(f.root, "a.jpg")))
			f.forgetResults()
			if _, err := f.read(3, file, v); !errors.Is(err, source.ErrChanged) {
				t.Errorf("removed: %v, want ErrChanged", err)
			}
		})
	}
}

func TestBrokenSampleIsTriedOnce(t *testing.T) {
	root := writeDataset(t)
	name := filepath.Join(root, "a.jpg")
	whole, err := os.ReadFile(name)
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(name, whole[:len(whole)/2], 0o644))
	f := newFixture(t, root, func(o *Options) { o.Overlay = faultyOverlay(t, func(faultfs.Op) error { return nil }) })
	v := view(t, "scan5")
	for i := range 3 {
		if _, err := f.read(Key(i), f.file(t, "a.jpg"), v); !errors.Is(err, transcode.ErrTruncated) {
			t.Fatalf("%v, want truncated", err)
		}
	}
	if s := f.Stats(); s.Failed != 1 || len(f.Bad()) != 1 {
		t.Errorf("tried %d times, noted %v", s.Failed, f.Bad())
	}
	if _, err := f.Prepare(t.Context(), f.file(t, "a.jpg"), v); !errors.Is(err, transcode.ErrTruncated) {
		t.Errorf("ahead of time: %v", err)
	}
	if got, err := f.read(10, f.file(t, "a.jpg"), view(t, "original")); err != nil || len(got) != len(whole)/2 {
		t.Errorf("the original: %d bytes, %v", len(got), err)
	}
	// mended, it is another version of the file and is tried again
	testenv.Must(t, os.WriteFile(name, whole, 0o644))
	_, err = f.read(11, f.file(t, "a.jpg"), v)
	if f.Close(); err != nil || f.Stats().Kept != 1 {
		t.Errorf("%v, %d are kept", err, f.Stats().Kept)
	}
}

// TestStoreTree: a store is a tree, whose files and their number change with its generation.
func TestStoreTree(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	testenv.Must(t, os.Mkdir(filepath.Join(root, "d"), 0o700))
	testenv.Must(t, os.WriteFile(filepath.Join(root, "d", "x"), []byte("xyz"), 0o640))
	packWith(t, registry, root, dir, pack.Rebuild)
	s := openStore(t, dir)
	f := newFixture(t, root, func(o *Options) {
		withCache(t, mixer.LiquidCache, 1<<20, 10)(o)
		o.Source, o.Store, o.Dataset = StoreTree(s), s, nil
	})
	for name, want := range map[string]string{"": "dr-xr-xr-x", "d": "drwx------", "d/x": "-rw-r-----", "none": "----------"} {
		a, err := f.Server.Stat(name, name == "d")
		entries, err2 := f.List(name)
		if a.Mode.String() != want || name == "d/x" && a.Size != 3 || errors.Is(err, fs.ErrNotExist) != (name == "none") || (err2 == nil) != a.Mode.IsDir() ||
			name == "d" && entries[0] != (source.Entry{Name: "x"}) || name == "" && !slices.Contains(entries, source.Entry{Name: "d", Dir: true}) {
			t.Errorf("%q: %v, %v, %v, %v", name, a, err, entries, err2)
		}
	}
	var used []string
	f.OnUse(func(v transcode.Pipeline) { used = append(used, v.String()) })
	for _, spec := range []string{"scan5", "bmp", "scan5", "original"} {
		_, err := f.read(1, f.file(t, "a.jpg"), view(t, spec))
		testenv.Must(t, err)
	}
	for _, left := range []bool{false, true} { // packs
		if f.Renewed(left); f.Stats().Cache.Population != 5 || f.cache.peek(1) == left || !slices.Equal(used, []string{"scan5", "bmp"}) {
			t.Errorf("%+v, what was open is open: %v; the views are used: %v", f.Stats().Cache, f.cache.peek(1), used)
		}
	}
}

// TestExplain says where a read of a file begins, and how many steps follow.
func TestExplain(t *testing.T) {
	root, dir, dropped := writeDataset(t), filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
	packWith(t, registry, root, dir, pack.Rebuild)
	packWith(t, registry, root, dropped, pack.Drop)
	overlay := openOverlay(t, t.TempDir(), 0)
	defer overlay.Close()
	kept := func(o *Options) { o.Overlay = overlay }
	in := map[string]fixture{
		"dataset": newFixture(t, root, nil), "kept": newFixture(t, root, kept), "store": fromStore(t, registry, dir, nil), "scans": fromStore(t, registry, dropped, nil),
		"mix": newFixture(t, root, func(o *Options) { kept(o); o.Policy = mixer.NewAdaptive(0.5, 1) }),
		"0":   newFixture(t, root, func(o *Options) { kept(o); o.Policy = mixer.Fixed(0) }),
	}
	in["kept"].keepAs(t, "a.jpg", "resize64-bmp")
	in["kept"].keepAs(t, "a.jpg", "resize64-png")
	f := in["dataset"]
	_, err := f.Resolve(t.Context(), 1, f.file(t, "b.jpg"), view(t, "resize64-png"))
	testenv.Must(t, err)
	_, err = f.read(2, f.file(t, "c.png"), view(t, "resize64-bmp"))
	testenv.Must(t, err)
	f.note("c.png", errors.New("it was damaged"))
	for what, want := range map[string]string{ // where it begins, the steps, whether its size is known, and why it could not be read
		"dataset a.jpg resize64-png": "the file of the dataset 3 false <nil>",
		"dataset b.jpg resize64-png": "memory: it was made a moment ago 0 false <nil>",
		"dataset c.png resize64-bmp": "memory: a reader has opened the file 0 true <nil>",
		"dataset c.png npy":          "the file of the dataset 2 true it was damaged<nil>",
		"kept a.jpg resize64-png":    "what mounts have kept on disk: decode-resize64-png 0 true <nil>",
		"kept a.jpg resize64-npy":    "what mounts have kept on disk: decode-resize64-bmp 1 true <nil>",
		"mix a.jpg resize64-bmp":     "what mounts have kept on disk: decode-resize64-bmp; the mix may choose something shorter at a read 0 true <nil>",
		"0 a.jpg resize64-bmp":       "the file of the dataset 3 true <nil>",
		"store a.jpg original":       "the store, which rebuilds the file from its scans 0 true <nil>",
		"store c.png original":       "the store, which holds the file as it is 0 true <nil>",
		"store c.png bmp":            "the store: the file as it is 2 true <nil>",
		"scans a.jpg original":       " 0 true " + errNoOriginal.Error(),
	} {
		w := strings.Fields(what)
		key := map[string]Key{"dataset c.png resize64-bmp": 2}[what]
		e, err := in[w[0]].Explain(t.Context(), key, in[w[0]].file(t, w[1]), view(t, w[2]))
		from := regexp.MustCompile("@[^;]*").ReplaceAllString(e.From, "") // without versions
		if got := fmt.Sprintf("%s %d %v %s%v", from, e.Computed, e.Size >= 0, e.Failed, err); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
		both, err := in[w[0]].StoredBothWays(t.Context(), in[w[0]].file(t, w[1]), view(t, w[2]))
		if err != nil || both != strings.Contains("kept a.jpg resize64-png, mix a.jpg resize64-bmp, 0 a.jpg resize64-bmp", what) {
			t.Errorf("%s is stored and can be made: %v, %v", what, both, err)
		}
	}
}

// TestFetch: what a view is made of is read, and computed, one after the other.
func TestFetch(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	packWith(t, registry, root, dir, pack.Drop)
	for _, s := range []*store.Store{nil, openStore(t, dir)} {
		f := newFixture(t, root, func(o *Options) { o.Store = s })
		file := f.file(t, "a.jpg")
		for _, spec := range []string{"png", "scan2", "original"} {
			scans := s != nil && spec == "scan2" // of the store
			f.Fetch(t.Context(), 1, file, view(t, spec))
			got, err := f.planned(t, "a.jpg", spec).Fetch(t.Context(), f.o.Policy)
			if err != nil || (got.Bytes == file.Identity.Size) == scans || got.Bytes == 0 || (got.from != nil) != (spec != "original" && !scans) {
				t.Errorf("%s: %d bytes are read, %v", spec, got.Bytes, err)
			}
			testenv.Must(t, got.Finish(t.Context()))
		}
	}
}
