package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

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
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		d.Close()
	})
	return fixture{p, root, &sync.Map{}}
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
	defer goleak.VerifyNone(t)
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

func TestProducedOnceForAllReaders(t *testing.T) {
	f := newFixture(t, writeDataset(t), nil)
	file, v := f.file(t, "a.jpg"), view(t, "resize64-bmp")
	var readers sync.WaitGroup
	for i := range 16 {
		readers.Go(func() {
			if _, err := f.read(Key(i), file, v); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	if made := f.Stats().Produced; made != 1 {
		t.Errorf("produced %d times", made)
	}
	// Three fidelities are one representation.
	for i, spec := range []string{"scan1", "scan5", "scan10"} {
		if _, err := f.read(Key(100+i), file, view(t, spec)); err != nil {
			t.Fatal(err)
		}
	}
	if made := f.Stats().Produced; made != 2 {
		t.Errorf("after three fidelities: produced %d times", made)
	}
}

func TestKeptAcrossMounts(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "overlay")
	for round, wantProduced := range []int64{2, 0} {
		overlay := openOverlay(t, dir, 0)
		f := newFixture(t, root, func(o *Options) { o.Overlay = overlay })
		for i, name := range []string{"a.jpg", "b.jpg"} {
			if _, err := f.read(Key(i), f.file(t, name), view(t, "scan5")); err != nil {
				t.Fatal(err)
			}
		}
		if made := f.Stats().Produced; made != wantProduced {
			t.Errorf("round %d: produced %d, want %d", round, made, wantProduced)
		}
		f.Close()
		overlay.Close()
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
	f := newFixture(t, root, nil)
	v := view(t, "scan5")
	for i := range 3 {
		if _, err := f.read(Key(i), f.file(t, "a.jpg"), v); !errors.Is(err, transcode.ErrTruncated) {
			t.Fatalf("%v, want truncated", err)
		}
	}
	if s := f.Stats(); s.Failed != 1 {
		t.Errorf("tried %d times", s.Failed)
	}
	if got, err := f.read(10, f.file(t, "a.jpg"), view(t, "original")); err != nil || len(got) != len(whole)/2 {
		t.Errorf("the original: %d bytes, %v", len(got), err)
	}
	// mended, it is another version of the file and is tried again
	testenv.Must(t, os.WriteFile(name, whole, 0o644))
	if _, err := f.read(11, f.file(t, "a.jpg"), v); err != nil {
		t.Error(err)
	}
}
