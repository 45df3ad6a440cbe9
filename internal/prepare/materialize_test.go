package prepare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// writeClasses makes classes of JPEG and PNG pictures, with a mask and a broken
// file in each.
func writeClasses(t *testing.T, classes, each int) string {
	t.Helper()
	root := t.TempDir()
	for c := range classes {
		for i := range each {
			name := fmt.Sprintf("c%d/%03d.%s", c, i, []string{"jpg", "png"}[i%2])
			write(t, root, name, photo(t, name, 40+i, 30+c, uint64(100*c+i)))
		}
		var mask bytes.Buffer
		testenv.Must(t, png.Encode(&mask, image.NewPaletted(image.Rect(0, 0, 9, 9), color.Palette{color.Black, color.White})))
		write(t, root, fmt.Sprintf("c%d/mask.png", c), mask.Bytes())
		write(t, root, fmt.Sprintf("c%d/broken.jpg", c), []byte("\xff\xd8\xff and no more"))
		write(t, root, fmt.Sprintf("c%d/labels.json", c), []byte("{}"))
	}
	return root
}

// TestMaterializing: a fraction holds what the view shows, of a share of each class.
func TestMaterializing(t *testing.T) {
	const classes, each = 3, 20
	root, dir := writeClasses(t, classes, each), filepath.Join(t.TempDir(), "store")
	packed(t, root, dir)
	for _, spec := range []string{"ppm", "bmp", "l3", "resize16-ppm", "resize16-jpeg90"} {
		t.Run(spec, func(t *testing.T) {
			v := view(t, spec)
			var before []string
			for _, share := range []float64{0.3, 0.7, 1} {
				from := opened(t, dir)
				s := serving(t, serve.Options{Source: serve.StoreTree(from), Store: from})
				looked := 0
				m, err := Materialize(t.Context(), s, from, transcode.Roles{}, v, share, func() { looked++ })
				testenv.Must(t, err)
				if m.Faulty != classes || m.Samples+m.Unchanged != classes*(each+1) || looked != classes*(each+2) || m.Stored != 0 {
					t.Errorf("%+v, %d looked at", m, looked)
				}
				if len(m.Wanted) < int(share*float64(m.Samples))-classes || len(m.Wanted) > int(share*float64(m.Samples))+classes {
					t.Errorf("%d of %d for %v", len(m.Wanted), m.Samples, share)
				}
				var paths []string
				for _, w := range m.Wanted {
					paths = append(paths, w.Path)
				}
				if !slices.Equal(before, paths[:len(before)]) {
					t.Errorf("share %v does not begin with the one before", share)
				}
				before = paths
				estimate, err := m.Bytes(context.Background(), m.Wanted)
				testenv.Must(t, err)
				report, err := from.Materialize(context.Background(), spec, m.Wanted, m, store.FractionOptions{Share: share})
				if err != nil || report.Failed > 0 || report.Made+report.Kept != int64(len(m.Wanted)) {
					t.Fatalf("%+v, %v", report, err)
				}
				if n := s.Stats(); n.Produced > 0 {
					t.Errorf("%d results went through the cache", n.Produced)
				}
				again := opened(t, dir)
				f := again.Fraction(spec)
				if n := f.Bytes(); n < estimate*2/3 || n > estimate*3/2 {
					t.Errorf("%d bytes, estimated were %d", n, estimate)
				}
				for _, w := range m.Wanted {
					rep, err := f.Get(w.Path, w.Source, w.Key)
					testenv.Must(t, err)
					r, err := f.Reader(rep, 0)
					testenv.Must(t, err)
					got := make([]byte, r.Size())
					if _, err := r.ReadAt(got, 0); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, want(t, root, w.Path, v)) {
						t.Errorf("%s differs", w.Path)
					}
				}
			}
		})
	}
}

// TestMaterializingCures: a result that is damaged is made again, and not of itself.
func TestMaterializingCures(t *testing.T) {
	root, dir := writeClasses(t, 1, 6), filepath.Join(t.TempDir(), "store")
	packed(t, root, dir)
	v := view(t, "ppm")
	materialize := func() store.FractionReport {
		from := opened(t, dir)
		s := serving(t, serve.Options{Source: serve.StoreTree(from), Store: from})
		m, err := Materialize(t.Context(), s, from, transcode.Roles{}, v, 1, func() {})
		testenv.Must(t, err)
		report, err := from.Materialize(context.Background(), "ppm", m.Wanted, m, store.FractionOptions{Share: 1, Verify: true})
		if err != nil || report.Failed > 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		return report
	}
	materialize()
	packs, _ := filepath.Glob(filepath.Join(dir, "fractions", "ppm", "000001-*.pack"))
	pack := packs[0]
	data, err := os.ReadFile(pack)
	testenv.Must(t, err)
	data[len(data)/3] ^= 4
	testenv.Must(t, os.WriteFile(pack, data, 0o644))
	if report := materialize(); report.Made != 1 {
		t.Errorf("%+v", report)
	}
	if problems, err := store.Check(context.Background(), dir, store.Options{}, nil); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// want computes the view by the plan alone.
func want(t testing.TB, root, name string, v transcode.Pipeline) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root, name))
	testenv.Must(t, err)
	info, err := registry.ProbeBytes(src)
	testenv.Must(t, err)
	out, err := registry.Plan(v, info, transcode.Auto).Run(t.Context(), src)
	testenv.Must(t, err)
	return out
}

// TestFits refuses what there is no space for, and says which share there is space for.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		what         string
		most         int64
		plan         store.FractionPlan
		more         int64
		exact        bool
		bytes, fits  float64
		refused      bool
		free, margin int64
	}{
		{what: "space", more: 900, exact: true, free: 1000, margin: 100},
		{what: "no space", more: 901, exact: true, free: 1000, margin: 100, refused: true, bytes: 901, fits: 0.94},
		{what: "an estimate", more: 850, free: 1000, margin: 100, refused: true, bytes: 935, fits: 0.83},
		{what: "over the bound", most: 500, plan: store.FractionPlan{KeepBytes: 200}, more: 800, exact: true, free: 5000, refused: true, bytes: 1000, fits: 0.47},
		{what: "what is copied", plan: store.FractionPlan{CopyBytes: 600}, more: 500, exact: true, free: 1000, refused: true, bytes: 1100, fits: 0.76},
		{what: "nothing fits", more: 5000, exact: true, free: 100, margin: 100, refused: true, bytes: 5000},
	} {
		m := &Materializing{Exact: c.exact}
		err := m.fits(RunOptions{Share: 1, MaxBytes: c.most}, c.plan, c.more, c.free, c.margin)
		var space *SpaceError
		if errors.As(err, &space) != c.refused {
			t.Errorf("%s: %v", c.what, err)
		} else if c.refused && (float64(space.Bytes) != c.bytes || space.Fits != c.fits) {
			t.Errorf("%s: %d bytes, %g fit", c.what, space.Bytes, space.Fits)
		}
	}
}
