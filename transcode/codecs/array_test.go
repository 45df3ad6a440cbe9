package codecs

import (
	"fmt"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// TestFixedArray tells the views whose files all hold arrays of one shape.
func TestFixedArray(t *testing.T) {
	r := Default(transcode.Limits{})
	for spec, want := range map[string]string{
		"rrc224-hflip-npy": "[224 224 3] uint8", "resize256-crop224-npy": "[224 224 3] uint8", "crop64-npy": "[64 64 3] uint8",
		"grey-crop8-npy": "[8 8] uint8", "crop8-chw-npy": "[3 8 8] uint8", "resize9-crop8-center-chw-npy": "[3 8 8] float32",
		"pad4-randcrop32-npy": "[32 32 3] uint8", "rrc8-npy-own": "[8 8 3] uint8",
		"npy": "", "resize8-npy": "", "half-npy": "", "crop8-bmp": "", "rrc8-ppm": "", "stored-bmp": "", "scan5": "", "original": "", "pad4-npy": "",
	} {
		p, err := r.ParseRandom(spec)
		testenv.Must(t, err)
		a, ok := r.FixedArray(p)
		got := ""
		if ok {
			got = fmt.Sprintf("%v %s", a.Shape, [...]string{"uint8", "uint16", "float32"}[a.Type])
		}
		if got != want {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
		if !ok {
			continue
		}
		// And of every other size that a JPEG file has
		for _, size := range [][2]int{{1, 9000}, {8, 8}, {500, 375}, {64, 63}} {
			plan := r.Plan(p, transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: size[0], Height: size[1]}, transcode.Auto)
			this, ok := plan.Array()
			if n, closed := plan.Size(); !ok || !this.Equal(a) || !closed || n != transcode.ArrayHeaderSize+a.Bytes() {
				t.Errorf("%s of %v: %v, %d bytes", spec, size, this, n)
			}
		}
	}
}
