package transcode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestParseRandom reads the specs of random views, and the words that are attached to
// their steps.
func TestParseRandom(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, spec := range []string{
		"rrc224-hflip-npy", "rrc96scale5to40-hflip-npy", "rrc224scale30to100ratio50to200-bmp", "pad4-randcrop32-hflip-npy",
		"resize256-randcrop224-ppm", "scan5-rrc224-chw-npy", "rrc224ratio100to100-npy", "rrc224-bmp-own",
		"rrc224cubic-hflip-npy", "rrc48scale5to40cubic-npy",
		"rrc224-hflip-trivialaugment-npy", "rrc176-hflip-randaug2_9-erase10-npy", "autoaugment-npy",
		"rrc224-colorjitter40_0_20_10p80-randgrey20-blur23p50-solarize0-ppm",
	} {
		p, err := r.ParseRandom(spec)
		if err != nil || p.String() != spec || !p.Random() {
			t.Errorf("%s: %v, %v", spec, p, err)
			continue
		}
		if p.Path() != spec || p.In(7, 3).Path() != ".draw/7/3/"+spec || p.In(7, 3).Whole().Path() != ".draw/7/3/"+p.Whole().String() {
			t.Errorf("%s: paths %s, %s", spec, p.In(7, 3).Path(), p.In(7, 3).Whole().Path())
		}
		for _, v := range []transcode.Pipeline{p.In(7, 3), p.In(7, 3).Repeat(2)} {
			again, err := r.ParsePath(v.Path())
			d, _ := again.DrawOf("a")
			if want, _ := v.DrawOf("a"); err != nil || again.Path() != v.Path() || d != want {
				t.Errorf("%s is read as %s, %v", v.Path(), again.Path(), err)
			}
		}
		if got := p.In(7, 3).Repeat(2).Path(); got != ".draw/7/3.2/"+spec {
			t.Errorf("%s repeated is %s", spec, got)
		}
		var e *transcode.SpecError
		if _, err := r.Parse(spec); !errors.As(err, &e) || !strings.HasPrefix(spec[e.Offset:], e.Word) || !strings.HasSuffix(e.Hint, spec) {
			t.Errorf("%s as a view that does not draw: %v", spec, err)
		}
	}
	for spec, want := range map[string]string{
		"rrc224-hflip-npy": "resize256-crop224-npy", "pad4-randcrop32-hflip-npy": "pad4-crop32-npy",
		"scan5-rrc96scale5to40-bmp-own":       "scan5-resize109-crop96-bmp-own",
		"rrc224-hflip-randaug2_9-erase10-npy": "resize256-crop224-npy",
	} {
		p, err := r.ParseRandom(spec)
		testenv.Must(t, err)
		if got := p.Validation(); got != want {
			t.Errorf("%s: for validation %s, want %s", spec, got, want)
		} else if _, err := r.Parse(got); err != nil {
			t.Error(err)
		}
	}
	for spec, want := range map[string]string{
		"randaug-npy":                        "for example randaug2_9",
		"randaug2-npy":                       "randaug has 2 numbers (for example randaug2_9)",
		"randaug2_31-npy":                    "the magnitude of randaug is a number from 0 to 30, not 31",
		"randaug2_09-npy":                    "write randaug2_9",
		"randaug2_9_9-npy":                   "randaug has 2 numbers",
		"rrc224_3-npy":                       "unknown step",
		"colorjiter40_40_40_10-npy":          "did you mean colorjitter40_40_40_10",
		"colorjitter40_40_40_10p-npy":        "p takes a number from 1 to 100 (for example p1)",
		"colorjitter40_40_40_10p0-npy":       "p takes a number from 1 to 100",
		"colorjitter40_40_40_60-npy":         "the hue of colorjitter is a number from 0 to 50",
		"blur22-npy":                         "blur takes an odd number, not 22",
		"solarize128p020-npy":                "write solarize128p20",
		"stored-trivialaugment-npy":          "never stored",
		"rrc224":                             "gives pixels",
		"rrc-npy":                            "needs a number",
		"rrc224scale-npy":                    "scale needs two numbers from 1 to 100 (for example scale1to100)",
		"rrc224scale40to5-npy":               "the smaller one first",
		"rrc224scale0to5-npy":                "not 0to5",
		"rrc224scale5to40scale5to40-npy":     "scale stands twice",
		"rrc224ratio50to200scale30to100-npy": "write rrc224scale30to100ratio50to200",
		"rrc224scale05to40-npy":              "write rrc224scale5to40",
		"rrc224cubicscale5to40-npy":          "write rrc224scale5to40cubic",
		"rrc224cubiccubic-npy":               "cubic stands twice",
		"rrc224bicubec-npy":                  "is no word of rrc",
		"rrc224-jpeg90":                      "read as bytes of pixels",
		"rrc224-png":                         "read as bytes of pixels",
		"rrc224-float32-npy":                 "read as bytes of pixels",
		"stored-rrc224-npy":                  "never stored",
		"hflip5-npy":                         "hflip takes no number",
		"hflipscale5to40-npy":                "unknown step",
		"rrc224-rrc224-npy":                  "stands twice",
	} {
		if _, err := r.ParseRandom(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

// TestDraws pins what is drawn: another program, and another version of this one, has to
// draw the same.
func TestDraws(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	view, err := r.ParseRandom("pad4-rrc224-hflip-npy")
	testenv.Must(t, err)
	info := transcode.Info{Format: transcode.PNG, Mode: transcode.ModeRGB, Width: 500, Height: 375}
	undrawn := r.Plan(view, info, transcode.Auto)
	if _, err := undrawn.RunAfter(t.Context(), 2, nil, nil); !errors.Is(err, transcode.ErrInternal) || !undrawn.Random() {
		t.Errorf("without a draw: %v", err)
	}
	var got []string
	keys := map[string]bool{}
	for _, d := range []transcode.Draw{
		{Path: "n01/a.jpg"}, {Path: "n01/b.jpg"}, {Seed: 1, Path: "n01/a.jpg"}, {Epoch: 1, Path: "n01/a.jpg"}, {Repeat: 1, Path: "n01/a.jpg"},
		{Seed: 1 << 63, Epoch: 1<<64 - 1, Path: "n01/a.jpg"},
	} {
		plan := undrawn.Drawn(d)
		again := undrawn.Drawn(d)
		if plan.Key() != again.Key() {
			t.Errorf("%+v: %s, then %s", d, plan.Key(), again.Key())
		}
		keys[plan.Key()] = true
		steps, _, _ := strings.Cut(plan.Key(), "@")
		got = append(got, steps)
		if size, ok := plan.Size(); !ok || size != 128+224*224*3 {
			t.Errorf("%d bytes, %v", size, ok)
		}
	}
	want := []string{
		"decode-pad4-rrc224+57+0+419+372-hflip+flip-npy",
		"decode-pad4-rrc224+72+21+322+309-hflip+flip-npy",
		"decode-pad4-rrc224+80+0+424+381-hflip+flip-npy",
		"decode-pad4-rrc224+177+173+256+194-hflip-npy",
		"decode-pad4-rrc224+130+102+215+183-hflip-npy",
		"decode-pad4-rrc224+87+5+313+376-hflip+flip-npy",
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("drew %s, want %s", got[i], want[i])
		}
	}
	if len(keys) != len(got) {
		t.Errorf("%d draws are %d", len(got), len(keys))
	}
}

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
