package human

import (
	"math"
	"testing"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1281167: "1,281,167", -1234: "-1,234", -123: "-123"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if got := Plural(1, "file", "files") + ", " + Plural(2000, "file", "files"); got != "1 file, 2,000 files" {
		t.Error(got)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.00 kB", 9994: "9.99 kB", 9995: "10.0 kB", 99950: "100 kB", 999499: "999 kB", 999500: "1.00 MB",
		50e9: "50.0 GB", 22893234: "22.9 MB", math.MaxInt64: "9223 PB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "512B": 512, "0.5K": 512, "1K": 1024, "1k": 1024, "512M": 512 << 20, "10GiB": 10 << 30, "50GB": 50e9, "50 GB": 50e9,
		"1.5T": 3 << 39, "2TB": 2e12, "1kb": 1000,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "GB", "-1", "1e9", "1X", "1GG", "0x10", "+5", "9999999999T", "NaN", "Inf", "1 2", "1_000", "512", "0.5B"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("%q is %d", in, got)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"größe 1.jpg":    "größe 1.jpg",
		"a\nb":           `"a\nb"`,
		"\x1b[2Jred.jpg": `"\x1b[2Jred.jpg"`,
		"a\xff":          `"a\xff"`,
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestWord(t *testing.T) {
	for name, want := range map[string]string{
		"/mnt/resize256-npy": "/mnt/resize256-npy",
		"/mnt/my set":        "'/mnt/my set'",
		"/it's/$HOME":        `'/it'\''s/$HOME'`,
		"it's":               `'it'\''s'`,
		"/größe":             "'/größe'",
	} {
		if got := Word(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
