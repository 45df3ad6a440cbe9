package transcode_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/raster"
)

// TestScalesEveryFormat: what is no JPEG is scaled to the size that a JPEG is decoded to,
// as resize would do it, so that pictures and masks of a dataset of many formats fit.
func TestScalesEveryFormat(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, m := range []transcode.Mode{transcode.ModeRGB, transcode.ModeRGBA, transcode.ModeL} {
		for _, size := range [][2]int{{61, 47}, {9, 9}, {1, 5}} {
			px := pillow.Sample(m, size[0], size[1])
			file, err := png.Encode(t.Context(), px)
			testenv.Must(t, err)
			for name, by := range map[string]int{"half": 2, "quarter": 4, "eighth": 8} {
				p, err := r.Parse(name + "-png")
				testenv.Must(t, err)
				info, err := r.ProbeBytes(file)
				testenv.Must(t, err)
				made, err := r.Plan(p, info, transcode.Image).Run(t.Context(), file)
				if err != nil {
					t.Fatalf("%s of %v %v: %v", p, m, size, err)
				}
				got, err := r.Decode(t.Context(), made)
				testenv.Must(t, err)
				want, err := raster.Bilinear(t.Context(), px, (size[0]+by-1)/by, (size[1]+by-1)/by)
				testenv.Must(t, err)
				if got.Width != want.Width || got.Height != want.Height || got.Mode != m || !bytes.Equal(got.Pix, want.Pix) {
					t.Errorf("%s of %v %v: %v %dx%d, other pixels than resize's", p, m, size, got.Mode, got.Width, got.Height)
				}
			}
		}
	}
}

// TestMaskFollows wants a marked mask to have the size of its picture, a JPEG, in every
// view, and no label that it did not have before.
func TestMaskFollows(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, size := range [][2]int{{61, 47}, {9, 9}, {1, 5}} {
		picture := transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: size[0], Height: size[1], Scannable: true}
		masks := map[string][]byte{}
		for _, m := range []transcode.Mode{transcode.ModeBit, transcode.ModeP, transcode.ModeRGB, transcode.ModeI16, transcode.ModeRGBA16} {
			px := pillow.Sample(m, size[0], size[1])
			file, err := png.Encode(t.Context(), px)
			testenv.Must(t, err)
			masks[fmt.Sprintf("%v %v png", m, size)] = file
			if file, err := bmp.Encode(px); err == nil {
				masks[fmt.Sprintf("%v %v bmp", m, size)] = file
			}
		}
		for name, file := range masks {
			info, err := r.ProbeBytes(file)
			testenv.Must(t, err)
			before := labels(t, r, file)
			for _, geometry := range strings.Fields("resize16 resize200 crop20 resize24-crop16 half quarter eighth half-resize7 scan5-resize16") {
				for _, encoder := range strings.Fields("bmp ppm png npy l3 jpeg90") {
					p, err := r.Parse(geometry + "-" + encoder)
					testenv.Must(t, err)
					plan := r.Plan(p, info, transcode.Mask)
					steps := r.Plan(p, picture, transcode.Auto).Steps()
					want := steps[len(steps)-1].Out
					if plan.Unchanged() {
						if info.Width != want.Width || info.Height != want.Height {
							t.Errorf("%s of %s: unchanged, and its picture is %dx%d", p, name, want.Width, want.Height)
						}
						continue
					}
					last := plan.Steps()[plan.Len()-1]
					got, err := plan.Run(t.Context(), file)
					if err != nil {
						t.Errorf("%s of %s: %v", p, name, err)
						continue
					}
					if last.Out.Width != want.Width || last.Out.Height != want.Height {
						t.Errorf("%s of %s: %dx%d, its picture is %dx%d", p, name, last.Out.Width, last.Out.Height, want.Width, want.Height)
					}
					if last.Kind.Format == transcode.NPY {
						continue
					}
					made, err := r.ProbeBytes(got)
					if err != nil || made.Width != want.Width || made.Height != want.Height || made.Mode != info.Mode {
						t.Errorf("%s of %s: made %+v, %v", p, name, made, err)
						continue
					}
					for label := range labels(t, r, got) {
						// what crop adds around a small mask is 0
						if !before[label] && strings.Trim(label, "\x00") != "" {
							t.Errorf("%s of %s: label %x is new", p, name, label)
							break
						}
					}
				}
			}
		}
	}
}

// labels are the values that pixels of a file have.
func labels(t *testing.T, r *transcode.Registry, file []byte) map[string]bool {
	t.Helper()
	px, err := r.Decode(t.Context(), file)
	testenv.Must(t, err)
	found := map[string]bool{}
	for pixel := range slices.Chunk(px.Pix, px.Mode.Channels()*px.Type.Size()) {
		found[string(pixel)] = true
	}
	return found
}
