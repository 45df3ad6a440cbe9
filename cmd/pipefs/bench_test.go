package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/tune"
)

// TestTunesWhatIsRead: tune compares only what the loader of the training reads, and
// refuses where that is no raw pixels at all.
func TestTunesWhatIsRead(t *testing.T) {
	for _, test := range []struct {
		reader, format string
		others         []string
		want, fails    string
	}{
		{"", "bmp", []string{"scan5", "resize256-bmp"}, "scan5 resize256-bmp", ""},
		{"timm", "bmp", []string{"scan5", "resize256-bmp"}, "scan5 resize256-bmp", ""},
		{"keras", "ppm", nil, "", "--mix-format ppm: Keras' image_dataset_from_directory cannot read the PNM files of ppm-own: it decodes JPEG, PNG, BMP and GIF; bmp can be read"},
		{"torchvision-io", "bmp", nil, "", "there is no mix for it; pipefs bench --for torchvision-io compares what it reads"},
		{"keras", "bmp", []string{"resize256-ppm", "scan5"}, "scan5", ""},
	} {
		var stderr bytes.Buffer
		c := &tuneConfig{Config: tune.Config{View: test.format}}
		kept, err := c.readable(&environ{stderr: &stderr}, loader.NewReading(test.reader, nil, 0), test.others)
		if err == nil && test.fails != "" || err != nil && (test.fails == "" || !strings.Contains(err.Error(), test.fails)) {
			t.Errorf("%+v: %v", test, err)
		}
		if !slices.Equal(kept, strings.Fields(test.want)) {
			t.Errorf("%+v: %v", test, kept)
		}
		if left := len(test.others) - len(kept); err == nil && strings.Count(stderr.String(), "pipefs: left out: ") != left {
			t.Errorf("%+v: %s", test, stderr.String())
		}
	}
}
