package transcode_test

import (
	"testing"

	"github.com/pipefs/pipefs/transcode"
)

func TestNearest(t *testing.T) {
	known := []string{"mount", "umount", "pack", "cache", "cache-bytes", "no-background", "bmp", "ppm", "png", "resize", "grey", "jpeg", "own"}
	for word, want := range map[string]string{
		"mnt": "mount", "umonut": "umount", "cahce": "cache", "CACHE": "cache", "cachebytes": "cache-bytes", "no-back": "no-background", "pakc": "pack",
		"bpm": "ppm", "resise": "resize", "jpg": "jpeg", "gray": "grey", "on": "own", "x": "", "": "", "frobnicate": "", "tiff": "",
	} {
		if got := transcode.Nearest(word, known...); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
