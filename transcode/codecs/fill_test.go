package codecs_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/jpeg/steps"
	"github.com/pipefs/pipefs/transcode/npy"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/pnm"
)

// TestFilledFilesAreEncodedOnes: what a decoder writes right into a file, in memory
// that others have used before, is what decoding and then encoding makes.
func TestFilledFilesAreEncodedOnes(t *testing.T) {
	samples := map[string][]byte{}
	for _, pattern := range []string{"*.jpg", "*.png"} {
		for _, path := range testenv.Pictures(t, pattern) {
			name := filepath.Base(path)
			samples[name] = testenv.Picture(t, name)
		}
	}
	for _, side := range [][2]int{{300, 200}, {33, 1}, {1, 33}} {
		src, err := pictures.Encode(".jpg", pictures.Photo(side[0], side[1], 1))
		testenv.Must(t, err)
		name := fmt.Sprint(side, ".jpg")
		samples[name] = src
		scans, err := jpeg.Transcode(src, jpeg.Options{})
		testenv.Must(t, err)
		samples[name+", progressive"] = append(bytes.Clone(scans.Data), 0xff, 0xd9)
	}
	r := codecs.Default(transcode.Limits{})
	encoders := map[string]func(*transcode.Pixels) ([]byte, error){"bmp": bmp.Encode, "ppm": pnm.Encode, "npy": npy.Encode}
	for name, src := range samples {
		info, err := r.ProbeBytes(src)
		if err != nil {
			t.Fatal(name, err)
		}
		var own fillingDecoder = steps.Decoder{}
		if info.Format == transcode.PNG {
			own = png.Decoder{}
		}
		px, err := own.Decode(t.Context(), src, transcode.Limits{})
		if err != nil {
			t.Fatal(name, err)
		}
		for spec, encode := range encoders {
			v, err := r.Parse(spec)
			testenv.Must(t, err)
			plan := r.Plan(v, info, transcode.Image)
			if plan.Unchanged() {
				continue // no place for such pixels
			}
			want, err := encode(px)
			if err != nil {
				t.Fatal(name, spec, err)
			}
			allocated := 0
			got, err := plan.RunAfter(t.Context(), 0, src, func(n int64) []byte {
				allocated++
				return bytes.Repeat([]byte{0xdb}, int(n))
			})
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s as %s: %d bytes, %v; want %d", name, spec, len(got), err, len(want))
			}
			if allocated != 1 && px.Mode == transcode.ModeRGB {
				t.Errorf("%s as %s: %d allocations by the caller's", name, spec, allocated)
			}
		}
		// Cut off: the same verdict both ways, and never other pixels.
		cut := src[:len(src)*2/3]
		_, wantErr := own.Decode(t.Context(), cut, transcode.Limits{})
		dst := make([]byte, px.Len())
		err = own.Fill(t.Context(), cut, transcode.Limits{}, info, px.Bounds(), dst, transcode.LayoutOf(px))
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s cut off: filling gives %v, decoding %v", name, err, wantErr)
		}
	}
}

type fillingDecoder interface {
	transcode.Decoder
	transcode.Filler
}

// TestPlace moves samples to every layout that a file has.
func TestPlace(t *testing.T) {
	px := &transcode.Pixels{Width: 5, Height: 3, Mode: transcode.ModeRGB}
	px.Pix = make([]byte, px.Len())
	for i := range px.Pix {
		px.Pix[i] = byte(i + 1)
	}
	for name, at := range map[string]transcode.Layout{
		"as it is":       {Row: 15, Pixel: 3, Channel: 1},
		"padded":         {Base: 2, Row: 16, Pixel: 3, Channel: 1},
		"bottom up, BGR": {Base: 2*16 + 2, Row: -16, Pixel: 3, Channel: -1},
		"planes":         {Row: 5, Pixel: 1, Channel: 15},
	} {
		dst := make([]byte, 64)
		transcode.Place(px, px.Bounds(), dst, at)
		for y := range px.Height {
			for x := range px.Width {
				for c := range 3 {
					if got, want := dst[at.Base+y*at.Row+x*at.Pixel+c*at.Channel], px.Pix[(y*5+x)*3+c]; got != want {
						t.Fatalf("%s: %d, %d, %d is %d, want %d", name, x, y, c, got, want)
					}
				}
			}
		}
	}
}
