package main

import (
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
