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
	"github.com/pipefs/pipefs/transcode/codecs"
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
			samples := []string{"photos/1.png", "photos/2.png", "no-pairs/1.png", "no-pairs/2.png"}
			refused, err := f.Refusals(t.Context(), samples, []transcode.Pipeline{view(t, "npy"), view(t, "resize16-bmp"), view(t, "rgb-resize16-bmp")})
			if err != nil || len(refused) != 1 || refused[0].Dir != "no-pairs" || refused[0].View != "resize16-bmp" {
				t.Errorf("%v, %v", refused, err)
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
		for name := range files {
			if err := f.Check(t.Context(), f.file(t, name)); !IsBad(err) || errors.Is(err, errFault) != (what == "store") {
				t.Errorf("%s from a %s: %v", name, what, err)
			}
		}
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

// TestExcuse: how many bad samples, one after the other, are passed over by each policy, and how many are noted.
func TestExcuse(t *testing.T) {
	root := writeDataset(t)
	put(t, root, "d/e.jpg", pictures.Photo(60, 40, 1))
	put(t, root, "d/f.jpg", pictures.Photo(60, 40, 2))
	bad, other := transcode.Errorf(transcode.ErrBad, "no picture"), errors.New("another error")
	for _, c := range []struct {
		on             OnError
		limit          float64 // of five samples
		cause          error
		excused, noted int
	}{
		{Fail, 1, bad, 0, 1}, {Fail, 1, other, 0, 0},
		{Black, 0, bad, 1, 2}, {Black, 0.3, bad, 2, 3}, {Black, 0.3, other, 2, 3},
		{Black, 1, &Refusal{}, 0, 0}, {Black, 1, fmt.Errorf("%w", ErrTooManyBad), 0, 0},
		{Replace, 0.3, bad, 2, 3}, {Replace, 1, bad, 5, 6}, {Replace, 1, other, 0, 0},
	} {
		f := newFixture(t, root, func(o *Options) { o.OnError, o.ErrorLimit = c.on, c.limit })
		n, err := 0, f.Excuse("0", c.cause)
		for ; err == nil && n < 10; err = f.Excuse(fmt.Sprint(n), c.cause) {
			n++
			_ = f.Excuse("0", c.cause) // it is known
		}
		want := c.cause.Error()
		if n > 0 {
			want = fmt.Sprintf("too many samples cannot be made: %d of 5 by now, more than --on-error-limit %g%%", n+1, 100*c.limit)
		}
		if n != c.excused || !strings.HasPrefix(fmt.Sprint(err), want) || len(f.Bad()) != c.noted {
			t.Errorf("%v: %d are excused, %v are noted: %v", c, n, f.Bad(), err)
		}
	}
}

// TestCheck: what is wrong with a sample is found once, and no name leads to one that cannot be made where bad samples are replaced.
func TestCheck(t *testing.T) {
	root := writeDataset(t)
	photo, err := os.ReadFile(filepath.Join(root, "a.jpg"))
	testenv.Must(t, err)
	png, err := os.ReadFile(filepath.Join(root, "c.png"))
	testenv.Must(t, err)
	for name, data := range map[string][]byte{"cut.jpg": photo[:len(photo)/2], "cut.png": png[:len(png)/2], "page.jpg": []byte("<html>"), "long.jpg": append(photo, make([]byte, 1<<17)...)} {
		testenv.Must(t, os.WriteFile(filepath.Join(root, name), data, 0o644))
	}
	f := newFixture(t, root, func(o *Options) { o.OnError, o.Registry = Replace, codecs.Default(transcode.Limits{MaxFile: 1 << 17}) })
	random, err := registry.ParseRandom("rrc16-npy")
	testenv.Must(t, err)
	for name, want := range map[string]string{"a.jpg": "", "c.png": "", "cut.jpg": "truncated", "cut.png": "truncated", "page.jpg": "unsupported", "long.jpg": "--max-file"} {
		says := func(err error) bool { return (err == nil) == (want == "") && strings.Contains(fmt.Sprint(err), want) }
		for again := range 2 {
			before := f.Stats().FetchedBytes
			if err, n := f.Check(t.Context(), f.file(t, name)), f.Stats().FetchedBytes-before; !says(err) || again > 0 && n > 0 {
				t.Errorf("%s: %v, %d bytes fetched", name, err, n)
			}
		}
		for _, v := range []transcode.Pipeline{view(t, "png"), random.In(1, 2), view(t, "original")} {
			if _, err := f.Server.Resolve(t.Context(), 0, f.file(t, name), v, Verified); v.Len() > 0 && !says(err) || v.Len() == 0 && err != nil {
				t.Errorf("%s in %v: %v", name, v, err)
			}
		}
	}
	testenv.Must(t, os.WriteFile(filepath.Join(root, "cut.jpg"), photo, 0o644))
	testenv.Must(t, f.Check(t.Context(), f.file(t, "cut.jpg")))
	f = newFixture(t, root, func(o *Options) { o.Dataset = noOpens{o.Dataset} })
	_ = f.Refuses("", view(t, "resize16-png"))
	if err := f.Check(t.Context(), f.file(t, "a.jpg")); !errors.Is(err, transcode.ErrInternal) || f.Stats().Panics != 3 {
		t.Errorf("%v, %d panics", err, f.Stats().Panics)
	}
}

// noOpens is a dataset with a bug.
type noOpens struct{ source.Dataset }

func (noOpens) OpenAs(string, source.Identity) (*source.File, error) { panic("a bug") }

// TestSpared: samples that may be masks are counted, and what to do is said.
func TestSpared(t *testing.T) {
	root := t.TempDir()
	for i := range 20 {
		put(t, root, fmt.Sprintf("a/%02d.png", i), pictures.Mask(16, 16, 5, uint64(i)))
	}
	put(t, root, "a/sub/1.jpg", pictures.Photo(16, 16, 1))
	put(t, root, "b/1.png", pictures.Photo(16, 16, 1))
	f := newFixture(t, root, func(o *Options) { o.Roles = transcode.Roles{Masks: []string{"b/*"}} })
	v := view(t, "resize64-crop48-npy")
	for i, got := range []Spared{
		f.Spares(t.Context(), v, nil), f.Spares(t.Context(), v, []string{"none.png", "a/01.png", "b/1.png", "a/sub/1.jpg"}),
		f.Spares(t.Context(), view(t, "bmp"), nil), f.Spares(t.Context(), view(t, "scan5"), nil),
	} {
		if want := [][2]int{{leastLooked, leastLooked + 2}, {1, 3}, {0, leastLooked + 2}, {0, 0}}[i]; [2]int{got.Samples, got.Of} != want {
			t.Errorf("%+v, want %d", got, want)
		}
	}
	c := f.NewSpared(v)
	add := func(path string, format transcode.Format, mode transcode.Mode, orientation uint8, err error, says string) {
		t.Helper()
		before, info := c.Samples, transcode.Info{Format: format, Mode: mode, Orientation: orientation, Width: 60, Height: 40}
		spared := c.Add(path, registry.Plan(v, info, transcode.Auto), err)
		if got := c.String(); !strings.Contains(got, says) || (got == "") != (says == "") || spared != (c.Samples > before) {
			t.Errorf("after %s: %s", path, got)
		}
	}
	add("c.jpg", transcode.JPEG, transcode.ModeRGB, 2, nil, "")
	add("d.jpg", transcode.JPEG, transcode.ModeRGB, 1, nil, "")
	add("g.png", transcode.PNG, transcode.ModeRGBA, 0, errors.New("unreadable"), "")
	add("e.png", transcode.PNG, transcode.ModeRGBA, 0, nil, "have several modes (RGB, RGBA)")
	add("f.png", transcode.PNG, transcode.ModeP, 0, nil, "1 of 5 samples looked at may be masks, such as f.png: resize64-crop48-npy leaves out")
	add("b.png", transcode.PNG, transcode.ModeP, 0, nil, "2 of 6 samples looked at may be masks, such as b.png: resize64-crop48-npy leaves out")
	add("c.png", transcode.PNG, transcode.ModeRGB, 0, &Refusal{Unfit: "of mode P"}, "3 of 7 samples looked at may be masks, such as b.png: resize64-crop48-npy refuses them")
	if c.Turned != 1 || c.Modes["RGB"] != 2 || c.Modes["RGBA"] != 1 {
		t.Errorf("%+v", c)
	}
}
