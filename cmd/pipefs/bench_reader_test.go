package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestCompared: bench measures only what the loader of the training reads.
func TestCompared(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	mixed := []string{"stored-bmp", "stored-ppm"}
	for _, test := range []struct {
		reader     string
		extensions []string
		mixed      []string
		want       string
	}{
		{"", []string{".jpeg"}, mixed, "original bmp-own resize256-bmp-own stored-bmp stored-ppm scan2 scan5"},
		{"torch", []string{".png"}, nil, "original bmp-own resize256-bmp-own"},
		{"timm", []string{".jpg", ".png"}, mixed, "original bmp-own resize256-bmp-own stored-bmp stored-ppm scan2 scan5"},
		{"timm", []string{".webp"}, nil, "original resize256-jpeg90"},
		{"keras", []string{".jpg"}, mixed, "original bmp-own resize256-bmp-own stored-bmp scan2 scan5"},
		{"keras", []string{".webp"}, nil, "original bmp resize256-bmp"},
		{"torchvision-io", []string{".jpg", ".png"}, mixed, "original resize256-jpeg90-own scan2 scan5"},
	} {
		got := strings.Join(compared(r, &survey.Peek{}, loader.NewReading(test.reader, test.extensions, 0), test.mixed), " ")
		if got != test.want {
			t.Errorf("for %s, %v: %s; want %s", test.reader, test.extensions, got, test.want)
		}
	}
}

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
		c := &tuneConfig{format: test.format}
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
