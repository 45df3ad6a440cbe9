package serve

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/pnm"
)

// withoutOriginals packs pictures of several formats as L3, without their files, and
// returns the dataset and the store.
func withoutOriginals(t *testing.T) (root string, s *store.Store) {
	t.Helper()
	root = writeDataset(t)
	write := func(name string, data []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), data, 0o644)
		}
		testenv.Must(t, err)
	}
	encode := func(px *transcode.Pixels) ([]byte, error) {
		px.Pix = make([]byte, px.Len())
		for i := range px.Pix {
			px.Pix[i] = byte(i * i)
		}
		if px.Mode == transcode.ModeRGB {
			return pnm.Encode(px)
		}
		return png.Encode(context.Background(), px)
	}
	file, err := encode(&transcode.Pixels{Width: 20, Height: 10, Mode: transcode.ModeI16, Type: transcode.Uint16})
	write("deep.png", file, err)
	file, err = encode(&transcode.Pixels{Width: 30, Height: 20, Mode: transcode.ModeL})
	write("grey.png", file, err)
	file, err = encode(&transcode.Pixels{Width: 40, Height: 30, Mode: transcode.ModeRGB})
	write("e.ppm", file, err)
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	l3, err := registry.Parse("l3")
	testenv.Must(t, err)
	pack := pack.Dataset{Registry: registry, Dir: d, Originals: pack.Drop, Represent: l3.Steps()[1].Kind}
	dir := t.TempDir()
	if report, err := store.Pack(context.Background(), dir, pack, pack, store.PackOptions{}); err != nil || report.Failed > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	return root, openStore(t, dir)
}

// TestReencoded wants png/ of a PNG file, and ppm/ of a PPM file, from a store that has
// their pictures only: the same pixels, under a key that no file of the dataset has. With
// the dataset the same views show the files themselves.
func TestReencoded(t *testing.T) {
	root, s := withoutOriginals(t)
	f := newFixture(t, root, func(o *Options) { o.Store, o.Source, o.Dataset = s, StoreTree(s), nil })
	with := newFixture(t, root, func(o *Options) { o.Store, o.Source = s, StoreTree(s) })
	for i, c := range []struct{ name, view string }{{"c.png", "png"}, {"deep.png", "png"}, {"e.ppm", "ppm"}, {"deep.png", "resize8-png"}} {
		file, v := f.file(t, c.name), view(t, c.view)
		want, err := os.ReadFile(filepath.Join(root, c.name))
		testenv.Must(t, err)
		got, err := f.read(Key(i+1), file, v)
		if err != nil {
			t.Errorf("%s/%s: %v", c.view, c.name, err)
			continue
		}
		if size, err := f.Resolve(t.Context(), Key(i+1), file, v); err != nil || size.Unchanged() || size.Size() != int64(len(got)) {
			t.Errorf("%s/%s: %+v, %v; read %d bytes", c.view, c.name, size, err, len(got))
		}
		if a, b := decoded(t, want), decoded(t, got); a.Mode != b.Mode || a.Width != b.Width || !bytes.Equal(a.Pix, b.Pix) {
			t.Errorf("%s/%s: another picture", c.view, c.name)
		}
		if h := f.planned(t, c.name, c.view); h.result == transcode.Original {
			t.Errorf("%s/%s has the key of the original", c.view, c.name)
		}
		if there, err := with.read(Key(i+1), file, v); err != nil || !bytes.Equal(there, want) {
			t.Errorf("%s/%s with the dataset: not the file, %v", c.view, c.name, err)
		}
	}
	if _, err := f.read(99, f.file(t, "c.png"), view(t, "scan5")); !errors.Is(err, errNoOriginal) {
		t.Errorf("scan5/c.png: %v", err)
	}
}

func decoded(t *testing.T, file []byte) *transcode.Pixels {
	t.Helper()
	px, err := registry.Decode(context.Background(), file)
	testenv.Must(t, err)
	return px
}

// TestMissing compares what Missing tells of a view with what reading all of it finds.
func TestMissing(t *testing.T) {
	root, s := withoutOriginals(t)
	names := []string{"a.jpg", "b.jpg", "c.png", "deep.png", "grey.png", "e.ppm"}
	without := func(roles transcode.Roles) fixture {
		return newFixture(t, root, func(o *Options) { o.Store, o.Source, o.Dataset, o.Roles = s, StoreTree(s), nil, roles })
	}
	f := without(transcode.Roles{})
	key := Key(1)
	for spec, want := range map[string]Missing{
		"original":       {Samples: 6, Of: 6, All: true},
		"scan3":          {Samples: 4, Of: 6},
		"bmp":            {Samples: 1, Of: 6}, // deep.png does not fit
		"ppm":            {Reencoded: 1, Of: 6},
		"png":            {Reencoded: 3, Of: 6},
		"npy":            {Of: 6},
		"l3":             {Of: 6},
		"resize8-jpeg90": {Samples: 2, Of: 6}, // deep.png and grey.png may be masks
		"resize16-png":   {Reencoded: 2, Of: 6},
		"stored-ppm":     {Samples: 6, Of: 6, All: true},
		"scan3-baseline": {Samples: 4, Of: 6},
	} {
		v := view(t, spec)
		got, err := f.Missing(v)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", spec, got, err, want)
		}
		failed := int64(0)
		for _, name := range names {
			key++
			if _, err := f.read(key, f.file(t, name), v); err != nil {
				failed++
			}
		}
		if failed != got.Samples {
			t.Errorf("%s: %d samples cannot be read, and %d are said to be missing", spec, failed, got.Samples)
		}
	}
	// A glob may make grey.png a picture: nothing but its path can tell, so it is counted,
	// and the sample itself is asked in its own role.
	v := view(t, "resize8-jpeg90")
	globs := without(transcode.Roles{Images: []string{"gr*.png"}})
	if m, err := globs.Missing(v); err != nil || m.Samples != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	grey, err := s.Lookup("grey.png")
	if err != nil || f.Shows(v, &grey) != NotShown || globs.Shows(v, &grey) != AsPlanned {
		t.Errorf("grey.png: %v, %v, %v", f.Shows(v, &grey), globs.Shows(v, &grey), err)
	}
	pair, err := transcode.ParsePair("pictures/*.jpg=masks/*.png")
	testenv.Must(t, err)
	for _, roles := range []transcode.Roles{{Masks: []string{"m.png"}}, {Pairs: []transcode.Pair{pair}}} {
		if m, err := without(roles).Missing(view(t, "jpeg90")); err != nil || m.Samples != 6 { // any may be a mask by its path
			t.Errorf("%+v: %+v, %v", roles, m, err)
		}
	}
	with := newFixture(t, root, func(o *Options) { o.Store, o.Source = s, StoreTree(s) })
	if m, err := with.Missing(view(t, "original")); err != nil || m != (Missing{}) {
		t.Errorf("with the dataset: %+v, %v", m, err)
	}
	for n, want := range []Missing{{}, {Samples: 1, Of: 1, All: true}} { // of stores of so many samples
		root, dir := t.TempDir(), t.TempDir()
		for range n {
			put(t, root, "a.jpg", pictures.Photo(60, 40, 1))
		}
		packWith(t, registry, root, dir, pack.Drop)
		if got, err := fromStore(t, registry, dir, nil).Missing(view(t, "original")); err != nil || got != want {
			t.Errorf("of %d samples: %+v, %v", n, got, err)
		}
	}
}
