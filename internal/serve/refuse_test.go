package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// colours is a mask whose colours are its labels.
func colours(seed uint64) image.Image {
	mask := pictures.Mask(60, 40, 12, seed)
	img := image.NewNRGBA(mask.Rect)
	draw.Draw(img, img.Rect, mask, image.Point{}, draw.Src)
	return img
}

// blank is a picture of one colour.
func blank() image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, 60, 40))
	draw.Draw(img, img.Rect, image.Black, image.Point{}, draw.Src)
	return img
}

func put(t testing.TB, root, name string, img image.Image) {
	t.Helper()
	at := filepath.Join(root, name)
	testenv.Must(t, pictures.Write(at, img))
	if path.Ext(name) == ".bmp" { // it holds a PNG file so far
		data, err := os.ReadFile(at)
		testenv.Must(t, err)
		info, err := registry.ProbeBytes(data)
		testenv.Must(t, err)
		data, err = registry.Plan(view(t, "bmp"), info, transcode.Auto).Run(t.Context(), data)
		testenv.Must(t, err)
		testenv.Must(t, os.WriteFile(at, data, 0o644))
	}
}

// maskTree has directories of masks and pictures. Those whose name begins with no are
// refused by views that blend PNG files.
func maskTree(t testing.TB) string {
	root := t.TempDir()
	photo := func(seed int) image.Image { return pictures.Photo(60, 40, uint64(seed)) }
	for i := range 3 {
		put(t, root, fmt.Sprintf("photos/%d.png", i), photo(i))
		put(t, root, fmt.Sprintf("no-panoptic/%d.png", i), colours(uint64(i)))
		put(t, root, fmt.Sprintf("no-bitmaps/%d.bmp", i), colours(uint64(i)))
		put(t, root, fmt.Sprintf("no-pairs/%d.jpg", i), photo(i))
		put(t, root, fmt.Sprintf("no-pairs/%d.png", i), colours(uint64(i)))
		put(t, root, fmt.Sprintf("palette/%d.png", i), pictures.Mask(60, 40, 5, uint64(i)))
		put(t, root, fmt.Sprintf("jpegs/%d.jpg", i), colours(uint64(i)))
		put(t, root, fmt.Sprintf("blank/%d.png", i), blank())
	}
	put(t, root, "photos/blank.png", blank())
	for i := range 40 {
		put(t, root, fmt.Sprintf("no-mixed/%02d.png", i), photo(i))
		put(t, root, fmt.Sprintf("no-mixed/%02d_mask.png", i), colours(uint64(i)))
	}
	// Two in a hundred are not empty, and no look is sure to find them.
	for i := range 100 {
		img := blank()
		if i%50 == 25 {
			img = colours(uint64(i))
		}
		put(t, root, fmt.Sprintf("no-defects/%02d.png", i), img)
	}
	return root
}

// TestRefuses says which views refuse which directories, from a dataset and from stores.
func TestRefuses(t *testing.T) {
	root := maskTree(t)
	stores := map[string]*store.Store{}
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	for name, pack := range map[string]pack.Dataset{
		"store":    {Registry: registry, Dir: d},
		"L3 alone": {Registry: registry, Dir: d, Originals: pack.Drop, Represent: kind("l3")},
	} {
		at := filepath.Join(t.TempDir(), "store")
		if _, err := store.Pack(context.Background(), at, pack, pack, store.PackOptions{}); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(at, store.Options{})
		testenv.Must(t, err)
		defer s.Close()
		stores[name] = s
	}
	for place, change := range map[string]func(*Options){
		"dataset": nil,
		"store":   func(o *Options) { o.Store, o.Source, o.Dataset = stores["store"], StoreTree(stores["store"]), nil },
		"L3 alone": func(o *Options) {
			o.Store, o.Source, o.Dataset = stores["L3 alone"], StoreTree(stores["L3 alone"]), nil
		},
	} {
		t.Run(place, func(t *testing.T) {
			f := newFixture(t, root, change)
			dirs, err := f.List("")
			testenv.Must(t, err)
			for spec, blends := range map[string]bool{
				"resize16-bmp": true, "resize16-png": true, "jpeg90": true, "crop30-jpeg90": true, "center-npy": true, "grey-npy": true, "half-bmp": true,
				"bmp": false, "npy": false, "png": false, "l3": false, "crop30-bmp": false, "float32-npy": false, "scan5": false, "original": false,
			} {
				v := view(t, spec)
				for _, dir := range dirs {
					entries, err := f.List(dir.Name)
					testenv.Must(t, err)
					want := blends && strings.HasPrefix(dir.Name, "no-")
					for _, e := range entries {
						name := path.Join(dir.Name, e.Name)
						r, err := f.Resolve(context.Background(), 0, f.file(t, name), v)
						if IsUnfit(err) == (dir.Name == "palette" && strings.HasPrefix(spec, "crop30")) && (err != nil || r.Unchanged()) && !errors.Is(err, ErrRefused) && !errors.Is(err, errNoOriginal) {
							continue // a mask that would not be cut as the others are is refused by itself
						}
						refused := errors.Is(err, ErrRefused)
						if err != nil && !refused && !errors.Is(err, errNoOriginal) || refused != want {
							t.Fatalf("%s of %s: refused is %v: %v", spec, name, refused, err)
						}
					}
				}
			}
			if n := f.Stats().Panics; n != 0 {
				t.Errorf("%d panics", n)
			}
		})
	}
}

func kind(name string) *transcode.Kind {
	for _, k := range registry.Kinds() {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// TestRolesEndRefusals wants views to show what the user says is in a directory.
func TestRolesEndRefusals(t *testing.T) {
	root := t.TempDir()
	const dir = `it's [a] {dir}`
	for i := range 3 {
		put(t, root, fmt.Sprintf("%s/%d.png", dir, i), colours(uint64(i)))
		put(t, root, fmt.Sprintf("%d.png", i), colours(uint64(i)))
	}
	v := view(t, "resize16-png")
	for _, c := range []struct{ dir, pattern string }{{dir, `it's \[a\] \{dir\}/*.png`}, {"", "/*.png"}} {
		name := path.Join(c.dir, "1.png")
		f := newFixture(t, root, nil)
		_, err := f.Resolve(context.Background(), 0, f.file(t, name), v)
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Dir != c.dir || refusal.View != "resize16-png" {
			t.Fatalf("%s: %v", name, err)
		}
		if want := "--masks " + human.Quote(c.pattern); !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q does not say %s in one line", err, want)
		}
		_, again := f.Resolve(context.Background(), 0, f.file(t, path.Join(c.dir, "2.png")), v)
		if !errors.Is(again, err) || !refusal.First() || refusal.First() {
			t.Errorf("%s is told more than once: %v", c.dir, again)
		}
		if list := f.Stats().Refused; len(list) != 1 || list[0] != refusal {
			t.Errorf("the statistics have %v", list)
		}
		for _, roles := range []transcode.Roles{{Masks: []string{c.pattern}}, {Images: []string{c.pattern}}} {
			f := newFixture(t, root, func(o *Options) { o.Roles = roles })
			if _, err := f.Resolve(context.Background(), 0, f.file(t, name), v); err != nil {
				t.Errorf("%v: %v", roles, err)
			}
		}
	}
}

// TestRefusesWhatCameLater adds masks to a directory that had none.
func TestRefusesWhatCameLater(t *testing.T) {
	root := t.TempDir()
	put(t, root, "a/1.jpg", pictures.Photo(60, 40, 1))
	f := newFixture(t, root, nil)
	v := view(t, "resize16-bmp")
	if _, err := f.Resolve(context.Background(), 0, f.file(t, "a/1.jpg"), v); err != nil {
		t.Fatal(err)
	}
	put(t, root, "a/1.png", colours(1))
	for _, name := range []string{"a/1.png", "a/1.jpg"} {
		if _, err := f.Resolve(context.Background(), 0, f.file(t, name), v); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScattered wants no regular distance between what is chosen.
func TestScattered(t *testing.T) {
	names := make([]string, 64)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	odd := 0
	seen := map[string]bool{}
	for _, name := range scattered(names, 16) {
		var i int
		_, _ = fmt.Sscan(name, &i)
		odd += i % 2
		seen[name] = true
	}
	if len(seen) != 16 || odd < 3 || odd > 13 {
		t.Errorf("%d chosen, %d of them odd", len(seen), odd)
	}
}

// TestContentNobodyKnows wants a file whose content is of no format that a codec knows
// to be itself in every view, from a dataset and from a store: a BMP without the header
// of a file, as clipboards have it, a page of HTML, and nothing at all.
func TestContentNobodyKnows(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	files := map[string][]byte{
		"clipboard.dib": {40, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 24, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0},
		"page.jpg":      []byte("<html>404 not found</html>"),
		"empty.png":     {},
	}
	for name, content := range files {
		testenv.Must(t, os.WriteFile(filepath.Join(root, name), content, 0o644))
	}
	packWith(t, registry, root, dir, pack.Rebuild)
	for what, f := range map[string]fixture{"dataset": newFixture(t, root, nil), "store": fromStore(t, registry, dir, nil)} {
		for i, spec := range views {
			for name, content := range files {
				if got, err := f.read(Key(10*i+len(name)), f.file(t, name), view(t, spec)); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s of %s from a %s: %q, %v", spec, name, what, got, err)
				}
			}
		}
	}
	s := openStore(t, dir)
	for name := range files {
		sample, err := s.Lookup(name)
		if err != nil || !Unread(sample.Fault) || sample.Info != (transcode.Info{}) {
			t.Errorf("%s is stored with the fault %q, %v", name, sample.Fault, err)
		}
	}
	for fault, want := range map[string]bool{
		"truncated: jpeg, byte 2: input ends": false, "": false,
	} {
		if Unread(fault) != want {
			t.Errorf("%q: %v", fault, !want)
		}
	}
}
