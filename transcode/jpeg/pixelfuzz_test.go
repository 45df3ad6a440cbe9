package jpeg

import (
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// FuzzPixels wants the pixels of libjpeg-turbo for all files that this package
// decodes and that libjpeg-turbo has no warning about.
func FuzzPixels(f *testing.F) {
	seeds(f)
	for _, options := range []string{"-quality 30", "-progressive -sample 1x2", "-sample 4x1 -restart 1", "-grayscale -progressive -quality 5"} {
		src := synthetic(f, 19, 35, options)
		f.Add(src)
		for _, cut := range cuts(f, src) {
			f.Add(cut)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, scale := range []int{1, 2, 4, 8} {
			got, err := DecodePixels(src, scale, fuzzLimits)
			checkKind(t, err)
			if err != nil {
				if c, err := coefficientsOf(src, fuzzLimits); err == nil {
					_, err := c.Pixels(scale)
					checkKind(t, err)
					if err == nil {
						t.Fatal("pixels of coefficients only")
					}
				}
				return
			}
			c, err := coefficientsOf(src, fuzzLimits)
			if err != nil {
				continue // it is damaged, and repaired
			}
			again, err := c.Pixels(scale)
			testenv.Must(t, err)
			samePixels(t, "coefficients", again, got)
			if c.Skipped > 0 || ambiguous(c.Width, c.Height, scale) {
				continue
			}
			want := &Image{got.Width, got.Height, got.Channels, make([]byte, len(got.Pix))}
			if decompress(t, src, want) == nil {
				samePixels(t, "libjpeg-turbo", got, want)
			}
		}
	})
}
