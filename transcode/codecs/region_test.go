package codecs_test

import (
	"bytes"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/pnm"
	"github.com/pipefs/pipefs/transcode/raster"
)

// TestCroppedViews: a view that begins with a crop holds what is cut out of the whole picture.
func TestCroppedViews(t *testing.T) { checkCropped(t, testenv.Pictures(t, "*")) }

func TestCroppedPhotographs(t *testing.T) {
	checkCropped(t, append(testenv.Shared(t, "kodak/*.png")[:3], testenv.Shared(t, "imagenet/*.JPEG")[:30]...))
}

func checkCropped(t *testing.T, paths []string) {
	t.Helper()
	r := codecs.Default(transcode.Limits{})
	for _, path := range paths {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		info, err := r.ProbeBytes(src)
		testenv.Must(t, err)
		for _, c := range []struct {
			view string
			side int
			make func(*transcode.Pixels) ([]byte, error)
		}{
			{"crop1-npy", 1, raster.EncodeNPY}, {"crop24-bmp", 24, bmp.Encode}, {"crop100-npy", 100, raster.EncodeNPY}, {"crop224-bmp", 224, bmp.Encode},
			{"crop24-png", 24, func(px *transcode.Pixels) ([]byte, error) { return png.Encode(t.Context(), px) }},
		} {
			v, err := r.Parse(c.view)
			testenv.Must(t, err)
			plan := r.Plan(v, info, transcode.Image)
			if plan.Unchanged() {
				continue
			}
			got, err := plan.Run(t.Context(), src)
			if err != nil {
				t.Fatal(path, c.view, err)
			}
			px, err := r.Decode(t.Context(), src)
			testenv.Must(t, err)
			want, err := c.make(raster.CenterCrop(px, c.side))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s in %s: not what is in the middle of the whole picture: %v", filepath.Base(path), c.view, err)
			}
		}
	}
}

// TestRegions takes regions of the pictures of all formats.
func TestRegions(t *testing.T) {
	for _, d := range []transcode.Decoder{jpeg.Decoder{}, png.Decoder{}, l3.Decoder{}, l3.Decoder{Backend: l3.CPU{}}} {
		taken := 0
		for _, path := range testenv.Pictures(t, "*") {
			src, err := os.ReadFile(path)
			testenv.Must(t, err)
			if _, err := d.Decode(t.Context(), src, transcode.Limits{}); err == nil && d.Sniff(src) {
				codectest.Regions(t, d, src, transcode.Limits{}, 10)
				taken++
			}
		}
		if taken < 3 {
			t.Errorf("%d pictures of format %v", taken, d.Format())
		}
	}
}

// TestRegionsOfPhotographs takes regions of photographs in PNG and in L3 files.
func TestRegionsOfPhotographs(t *testing.T) {
	for _, path := range testenv.Shared(t, "kodak/*.png") {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		codectest.Regions(t, png.Decoder{}, src, transcode.Limits{}, 2)
		px, err := png.Decoder{}.Decode(t.Context(), src, transcode.Limits{})
		testenv.Must(t, err)
		file, err := l3.Encode(px, l3.Options{})
		testenv.Must(t, err)
		codectest.Regions(t, l3.Decoder{}, file, transcode.Limits{}, 5)
	}
}

// TestRows: a decoder that tells where rows lie looks at these and at the head of the file,
// and at no other byte; and regions are cut out of what it decodes.
func TestRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for format, d := range map[string]transcode.RowDecoder{"*.bmp": bmp.Decoder{}, "*.p[bgnp]m": pnm.Decoder{}} {
		told := 0
		for _, path := range testenv.Pictures(t, format) {
			src, err := os.ReadFile(path)
			testenv.Must(t, err)
			info, err := d.(transcode.Decoder).Probe(bytes.NewReader(src), int64(len(src)), transcode.Limits{})
			if err != nil {
				continue
			}
			all, err := d.(transcode.Decoder).Decode(t.Context(), src, transcode.Limits{})
			if err != nil {
				continue
			}
			for range 20 {
				x, y := rng.IntN(all.Width), rng.IntN(all.Height)
				r := image.Rect(x, y, x+1+rng.IntN(all.Width-x), y+1+rng.IntN(all.Height-y))
				read := src
				for head := range min(len(src), transcode.HeadLen) { // the shortest one that tells
					begin, end, ok := d.Rows(src[:head], int64(len(src)), r.Min.Y, r.Max.Y)
					if !ok {
						continue
					}
					told++
					read = bytes.Repeat([]byte{0xdb}, len(src))
					copy(read, src[:head])
					copy(read[begin:end], src[begin:end])
					break
				}
				got, err := d.DecodeRegion(t.Context(), read, transcode.Limits{}, info, r)
				if err != nil || !bytes.Equal(got.Pix, all.Cut(r).Pix) || got.Width != r.Dx() || got.Height != r.Dy() || !bytes.Equal(got.Palette, all.Palette) {
					t.Errorf("%s, %v: %v", filepath.Base(path), r, err)
				}
				lying, err := d.Lying(read, transcode.Limits{}, info, r.Min.Y, r.Max.Y)
				if err != nil || lying != nil && differs(lying, all.Cut(image.Rect(0, r.Min.Y, all.Width, r.Max.Y))) {
					t.Errorf("%s, rows of %v where they lie: %v", filepath.Base(path), r, err)
				}
			}
		}
		if told == 0 {
			t.Errorf("no file of %s tells where its rows lie", format)
		}
	}
}

func differs(a, b *transcode.Pixels) bool {
	return a.Width != b.Width || a.Height != b.Height || a.Mode != b.Mode || a.Type != b.Type || !bytes.Equal(a.Pix, b.Pix)
}
