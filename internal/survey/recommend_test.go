package survey

import (
	"strings"
	"testing"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestSuitable: the views that are recommended depend on what is known of a dataset.
func TestSuitable(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	file := []string{"a.json"}
	for name, test := range map[string]struct {
		k    Peek
		want string
	}{
		"nothing special":   {Peek{}, "resize256-bmp-own bmp-own"},
		"boxes in pixels":   {Peek{Boxes: Boxes{Pixels: file}}, " bmp-own"},
		"relative boxes":    {Peek{Boxes: Boxes{Relative: file}}, "resize256-bmp-own bmp-own"},
		"masks":             {Peek{Masks: true, Modes: 1}, " bmp-own"},
		"other modes":       {Peek{Modes: 1}, "rgb-resize256-bmp-own bmp-own"},
		"may be masks":      {Peek{Modes: 2, spared: serve.Spared{Samples: 1}}, " bmp-own"},
		"no time to look":   {Peek{Modes: 1, hurried: true}, "resize256-bmp-own bmp-own"},
		"orientation":       {Peek{Turned: 1}, "upright-resize256-bmp-own upright-bmp-own"},
		"orientation, all":  {Peek{Turned: 1, Modes: 1}, "rgb-upright-resize256-bmp-own upright-bmp-own"},
		"orientation, COCO": {Peek{Turned: 1, Boxes: Boxes{Pixels: file}}, " upright-bmp-own"},
		"refused":           {Peek{refuses: transcode.Pipeline.Blends}, " bmp-own"},
		"refused but for rgb": {Peek{Modes: 1, refuses: func(p transcode.Pipeline) bool {
			return p.Blends() && !strings.HasPrefix(p.String(), "rgb-")
		}}, " bmp-own"},
	} {
		reads := loader.Reading{Turned: test.k.Turned}
		if got := test.k.Suitable(r, reads, ResizedViews...) + " " + test.k.Suitable(r, reads, ExactViews...); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
