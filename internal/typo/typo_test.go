package typo

import "testing"

func TestAsk(t *testing.T) {
	known := []string{"mount", "umount", "pack", "cache", "cache-bytes", "no-background", "bmp", "ppm", "png", "resize", "grey", "jpeg", "own"}
	for word, want := range map[string]string{
		"mnt":        "did you mean mount?",
		"umonut":     "did you mean umount?",
		"cahce":      "did you mean cache?",
		"CACHE":      "did you mean cache?",
		"cachebytes": "did you mean cache-bytes?",
		"no-back":    "did you mean no-background?",
		"bpm":        "did you mean bmp or ppm?",
		"resise":     "did you mean resize?",
		"jpg":        "did you mean jpeg?",
		"gray":       "did you mean grey?",
		"on":         "did you mean own?",
		"x":          "",
		"":           "",
		"ca":         "",
		"frobnicate": "",
		"tiff":       "",
	} {
		if got := Ask(word, known...); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Ask("pq", "pa", "pb", "pc"); got != "did you mean pa, pb or pc?" {
		t.Error(got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "axc", 1}, {"abc", "ac", 1},
		{"abc", "acb", 1}, {"ca", "abc", 3}, {"kitten", "sitting", 3},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
