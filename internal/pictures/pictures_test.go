package pictures

import (
	"bytes"
	"image"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestPhotoCompressesLikeAPhotograph keeps the pictures honest: neither flat nor
// noise, so that what is measured with them carries over.
func TestPhotoCompressesLikeAPhotograph(t *testing.T) {
	img := Photo(500, 375, 1)
	var file bytes.Buffer
	testenv.Must(t, jpeg.Encode(&file, img, &jpeg.Options{Quality: 90}))
	perPixel := float64(file.Len()*8) / float64(500*375)
	if perPixel < 1.5 || perPixel > 4 {
		t.Errorf("JPEG of quality 90 takes %.2f bits a pixel, photographs take 1.5 to 4", perPixel)
	}
}

func TestSameSeedSamePicture(t *testing.T) {
	a, b, c := Photo(40, 30, 7), Photo(40, 30, 7), Photo(40, 30, 8)
	if !bytes.Equal(a.Pix, b.Pix) {
		t.Error("the same seed gave two pictures")
	}
	if bytes.Equal(a.Pix, c.Pix) {
		t.Error("two seeds gave the same picture")
	}
}

// TestGrid compares values with the sum of waves that they stand for.
func TestGrid(t *testing.T) {
	f := newField(rand.New(rand.NewPCG(1, 2)))
	g := f.over(70, 1./20)
	for y := range 50 {
		g.enter(y)
		for x := range 70 {
			want := 0.0
			for _, w := range f {
				want += w.amplitude * math.Sin(w.fx*float64(x)/20+w.fy*float64(y)/20+w.phase)
			}
			if got := g.at(x); math.Abs(got-want) > 1e-9 {
				t.Fatalf("%g at %d, %d, want %g", got, x, y, want)
			}
		}
	}
}

func TestMaskUsesItsClasses(t *testing.T) {
	m := Mask(64, 48, 5, 3)
	if m.Bounds() != image.Rect(0, 0, 64, 48) || len(m.Palette) != 5 {
		t.Fatalf("bounds %v, %d colours", m.Bounds(), len(m.Palette))
	}
	seen := map[uint8]bool{}
	for _, v := range m.Pix {
		if v > 4 {
			t.Fatalf("class %d of 5", v)
		}
		seen[v] = true
	}
	if len(seen) < 2 {
		t.Errorf("only %d classes are drawn", len(seen))
	}
}
