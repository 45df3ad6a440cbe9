package transcode_test

import (
	"fmt"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func TestMoves(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	info := transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: 500, Height: 375, Orientation: 6}
	draw := transcode.Draw{Path: "n01/a.jpg"}
	for spec, want := range map[string]string{
		"npy":                       "[]",
		"chw-npy":                   "[]",
		"half-npy":                  "[{half [0 0 500 375] [250 188] false 0}]",
		"resize256-crop224-npy":     "[{resize256 [0 0 500 375] [341 256] false 0} {crop224 [58 16 224 224] [224 224] false 0}]",
		"crop600-npy":               "[{crop600 [-50 -112 600 600] [600 600] false 0}]",
		"pad4-npy":                  "[{pad4 [-4 -4 508 383] [508 383] false 0}]",
		"upright-npy":               "[{upright [0 0 375 500] [375 500] false 6}]",
		"pad4-rrc224-hflip-npy":     "[{pad4 [-4 -4 508 383] [508 383] false 0} {rrc224 [57 0 419 372] [224 224] false 0} {hflip [0 0 224 224] [224 224] true 0}]",
		"resize256-randcrop224-ppm": "[{resize256 [0 0 500 375] [341 256] false 0} {randcrop224 [107 29 224 224] [224 224] false 0}]",
	} {
		p, err := r.ParseRandom(spec)
		testenv.Must(t, err)
		if got := fmt.Sprint(r.Plan(p, info, transcode.Auto).Drawn(draw).Moves()); got != want {
			t.Errorf("%s\n got %s\nwant %s", spec, got, want)
		}
	}
}
