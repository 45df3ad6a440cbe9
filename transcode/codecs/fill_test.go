package codecs_test

import (
	"bytes"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/jpeg/steps"
	"github.com/pipefs/pipefs/transcode/npy"
	"github.com/pipefs/pipefs/transcode/pnm"
)

// TestFilledFilesAreEncodedOnes: what a decoder writes right into a file, in memory
// that others have used before, is what decoding and then encoding makes.
func TestFilledFilesAreEncodedOnes(t *testing.T) {
	samples := map[string][]byte{}
	for name, side := range map[string][2]int{"odd": {61, 47}, "large": {300, 200}, "one row": {33, 1}, "one column": {1, 33}, "one": {1, 1}} {
		colour := pictures.Photo(side[0], side[1], 1)
		var b bytes.Buffer
		if err := stdjpeg.Encode(&b, colour, nil); err != nil {
			t.Fatal(err)
		}
		samples[name] = bytes.Clone(b.Bytes())
		scans, err := jpeg.Transcode(b.Bytes(), jpeg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		samples[name+", progressive"] = append(bytes.Clone(scans.Data), 0xff, 0xd9)
		grey := image.NewGray(colour.Bounds())
		for i := range grey.Pix {
			grey.Pix[i] = color.GrayModel.Convert(colour.At(i%side[0], i/side[0])).(color.Gray).Y
		}
		b.Reset()
		if err := stdjpeg.Encode(&b, grey, nil); err != nil {
			t.Fatal(err)
		}
		samples[name+", grey"] = bytes.Clone(b.Bytes())
	}
	r := codecs.Default(transcode.Limits{})
	encoders := map[string]func(*transcode.Pixels) ([]byte, error){"bmp": bmp.Encode, "ppm": pnm.Encode, "npy": npy.Encode}
	for name, src := range samples {
		info, err := r.ProbeBytes(src)
		if err != nil {
			t.Fatal(name, err)
		}
		px, err := steps.Decoder{}.Decode(t.Context(), src, transcode.Limits{})
		if err != nil {
			t.Fatal(name, err)
		}
		for spec, encode := range encoders {
			want, err := encode(px)
			if err != nil {
				t.Fatal(name, spec, err)
			}
			v, err := r.Parse(spec)
			if err != nil {
				t.Fatal(err)
			}
			allocated := 0
			got, err := r.Plan(v, info, transcode.Auto).RunAfter(t.Context(), 0, src, func(n int64) []byte {
				allocated++
				return bytes.Repeat([]byte{0xdb}, int(n))
			})
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s as %s: %d bytes, %v; want %d", name, spec, len(got), err, len(want))
			}
			if allocated != 1 {
				t.Errorf("%s as %s: %d allocations by the caller's", name, spec, allocated)
			}
		}
		// Cut off: the same verdict both ways, and never other pixels.
		cut := src[:len(src)*2/3]
		_, wantErr := steps.Decoder{OwnOnly: true}.Decode(t.Context(), cut, transcode.Limits{})
		dst := make([]byte, px.Len())
		err = steps.Decoder{OwnOnly: true}.Fill(t.Context(), cut, transcode.Limits{}, info, dst, transcode.LayoutOf(px))
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s cut off: filling gives %v, decoding %v", name, err, wantErr)
		}
	}
}

// TestPlace moves samples to every layout that a file has.
func TestPlace(t *testing.T) {
	px := &transcode.Pixels{Width: 5, Height: 3, Mode: transcode.ModeRGB}
	px.Pix = make([]byte, px.Len())
	for i := range px.Pix {
		px.Pix[i] = byte(i + 1)
	}
	info := transcode.Info{Mode: px.Mode, Width: px.Width, Height: px.Height}
	for name, at := range map[string]transcode.Layout{
		"as it is":       {Row: 15, Pixel: 3, Channel: 1},
		"padded":         {Base: 2, Row: 16, Pixel: 3, Channel: 1},
		"bottom up, BGR": {Base: 2*16 + 2, Row: -16, Pixel: 3, Channel: -1},
		"planes":         {Row: 5, Pixel: 1, Channel: 15},
	} {
		dst := make([]byte, 64)
		if err := transcode.Place(px, info, dst, at); err != nil {
			t.Fatal(err)
		}
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
	info.Width = 4
	if err := transcode.Place(px, info, make([]byte, 64), transcode.Layout{}); err == nil {
		t.Error("placed a picture of another size")
	}
}
