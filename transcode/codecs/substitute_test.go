package codecs_test

import (
	"bytes"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
	"github.com/pipefs/pipefs/transcode/l3"
	"github.com/pipefs/pipefs/transcode/png"
)

// TestSubstitute checks that every view of pixels is the same, made of a PNG file and
// made of the L3 file that stands for it.
func TestSubstitute(t *testing.T) {
	views := []string{"bmp", "ppm", "npy", "chw-npy", "png", "l3", "grey-npy", "resize9-bmp", "center-chw-npy", "upright-npy"}
	compared := 0
	for _, o := range []l3.Options{{}, {Mode: l3.Fast, Patch: 16}} {
		r := codecs.New(transcode.Limits{}, codecs.Options{L3: o})
		kind := l3.Kind(o)
		for _, k := range r.Kinds() {
			if k.Name == kind.Name {
				kind = k
			}
		}
		for mode := transcode.ModeL; mode <= transcode.ModeRGBA16; mode++ {
			px := pillow.Sample(mode, 37, 21)
			px.Meta.ICC = nil
			px.Meta.EXIF, px.Meta.Orientation = []byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"), 6
			src, err := png.Encode(t.Context(), px)
			if err != nil {
				t.Fatal(mode, err)
			}
			info, err := r.ProbeBytes(src)
			if err != nil {
				t.Fatal(mode, err)
			}
			if _, ok := r.SubstituteKey(kind, info); ok != l3.Holds(mode, 2) {
				t.Fatalf("%v: substitute %v", mode, ok)
			}
			if !l3.Holds(mode, 2) {
				continue
			}
			file, err := r.Substitute(t.Context(), kind, info, src)
			if err != nil {
				t.Fatal(mode, err)
			}
			for _, spec := range views {
				view, err := r.Parse(spec)
				testenv.Must(t, err)
				plan := r.Plan(view, info, transcode.Image)
				rest, ok := plan.From(kind)
				if !ok {
					if !plan.Unchanged() {
						t.Errorf("%v, %s: does not begin with decoding", mode, spec)
					}
					continue
				}
				want, err := plan.Run(t.Context(), src)
				if err != nil {
					t.Fatal(mode, spec, err)
				}
				got, err := rest.Run(t.Context(), file)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%v, %s: another file, %v", mode, spec, err)
				}
				compared++
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d views compared", compared)
	}
}
