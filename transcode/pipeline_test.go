package transcode_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func TestParse(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for spec, steps := range map[string]string{
		"original":                         "",
		"scan5":                            "scan5",
		"scan10":                           "scan10",
		"bmp":                              "decode bmp",
		"scan5-bmp":                        "scan5 decode bmp",
		"resize256-npy":                    "decode resize256 npy",
		"upright-resize256-crop224-jpeg90": "decode upright resize256 crop224 jpeg90",
		"grey-center-chw-npy":              "decode grey center chw npy",
		"float32-grey-crop9-chw-npy":       "decode float32 grey crop9 chw npy",
		"chw-npy":                          "decode chw npy",
		"crop224-resize256-png":            "decode crop224 resize256 png",
		"stored-ppm":                       "decode ppm",
		"stored-resize256-png":             "decode resize256 png",
		"bmp-own":                          "decode bmp",
		"scan5-bmp-own":                    "scan5 decode bmp",
		"resize256-jpeg90-own":             "decode resize256 jpeg90",
	} {
		p, err := r.Parse(spec)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		var words []string
		for _, s := range p.Steps() {
			words = append(words, s.String())
		}
		if got := strings.Join(words, " "); got != steps {
			t.Errorf("%s: steps %q, want %q", spec, got, steps)
		}
		if p.String() != spec {
			t.Errorf("%s: canonical %s", spec, p)
		}
		if own := strings.HasSuffix(spec, "-own"); p.WithOwnNames().String() != spec && (own || p.OwnNames()) {
			t.Errorf("%s: with own names %s", spec, p.WithOwnNames())
		} else if own && p.Whole().WithOwnNames().String() != spec {
			t.Errorf("%s: the steps alone are %s", spec, p.Whole())
		}
		if whole := p.Whole(); whole.Stored() || p.Stored() && whole.OfStored().String() != spec || p.Stored() != strings.HasPrefix(spec, "stored-") {
			t.Errorf("%s: of all samples %s", spec, whole)
		}
		for n := range p.Len() + 1 {
			if got := p.Prefix(n).Len(); got != n {
				t.Errorf("%s: cut after %d steps, it has %d", spec, n, got)
			}
		}
	}
}

// TestParseErrors wants the caret under the word at fault and advice that helps.
func TestParseErrors(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for spec, want := range map[string]struct{ carets, reason, hint string }{
		"resize256-bmq":         {"          ^^^", `unknown step "bmq"`, "did you mean bmp?"},
		"resise256-bmp":         {"^^^^^^^^^", `unknown step "resise256"`, "did you mean resize256?"},
		"scna5":                 {"^^^^^", `unknown step "scna5"`, "did you mean scan5?"},
		"resise-bmp":            {"^^^^^^", `unknown step "resise"`, "did you mean resize256?"},
		"bpm":                   {"^^^", `unknown step "bpm"`, "did you mean ppm?"},
		"originl":               {"^^^^^^^", `unknown step "originl"`, "did you mean original?"},
		"bmp-on":                {"    ^^", `unknown step "on"`, "did you mean own?"},
		"resize256bmp":          {"^^^^^^^^^^^^", "unknown step", "did you mean resize256-bmp?"},
		"crop32_grey.bmp":       {"^^^^^^^^^^^^^^^", "unknown step", "did you mean crop32-grey-bmp?"},
		"tiff":                  {"^^^^", "unknown step", "the steps are scan, "},
		"webp":                  {"^^^^", `unknown step "webp"`, ""},
		"somethingelse":         {"^^^^^^^^^^^^^", `unknown step "somethingelse"`, "the steps are scan,"},
		"":                      {"^", "an empty word", "one hyphen"},
		"bmp-":                  {"    ^", "an empty word", ""},
		"resize256":             {"         ^", "resize256 gives pixels", "end it with one of"},
		"resize-bmp":            {"^^^^^^", "resize needs a number from 1 to 8192", "resize256"},
		"resize0-bmp":           {"^^^^^^^", "resize takes a number from 1 to 8192, not 0", ""},
		"resize99999-bmp":       {"^^^^^^^^^^^", "not 99999", ""},
		"resize0256-bmp":        {"^^^^^^^^^^", "leading zero", "write resize256"},
		"scan11":                {"^^^^^^", "from 1 to 10, not 11", ""},
		"bmp5":                  {"^^^^", "bmp takes no number", "write bmp"},
		"bmp-png":               {"    ^^^", "png cannot follow bmp", "bmp ends a view"},
		"center-bmp":            {"       ^^^", "bmp cannot follow center", "only npy"},
		"chw-resize256-npy":     {"    ^^^^^^^^^", "resize256 cannot follow chw", "write resize256 before chw"},
		"center-float32-npy":    {"       ^^^^^^^", "float32 cannot follow center", ""},
		"resize256-resize9-bmp": {"          ^^^^^^^", "resize stands twice", ""},
		"decode-bmp":            {"^^^^^^", "decode is implied", "leave it out"},
		"original-bmp":          {"^^^^^^^^", "original stands alone", ""},
		"scan10-bmp":            {"^^^^^^", "scan10 changes nothing", "write bmp"},
		"stored-scan10-bmp":     {"       ^^^^^^", "scan10 changes nothing", "write stored-bmp"},
		"stored":                {"^^^^^^", "stored stands once, before the steps", "stored-bmp"},
		"stored-":               {"       ^", "an empty word", ""},
		"stored-stored-ppm":     {"       ^^^^^^", "stored stands once", ""},
		"resize256-stored-ppm":  {"          ^^^^^^", "stored stands once, before", ""},
		"stored-original":       {"       ^^^^^^^^", "original stands alone", ""},
		"stored-resize256":      {"                ^", "resize256 gives pixels", ""},
		"own":                   {"^^^", "own stands once, behind the steps", "for example bmp-own"},
		"stored-own":            {"       ^^^", "own stands once, behind the steps", ""},
		"-own":                  {"^", "an empty word", ""},
		"own-bmp":               {"^^^", "own stands once, behind the steps", ""},
		"bmp-own-png":           {"    ^^^", "own stands once, behind the steps", ""},
		"bmp-own-own":           {"    ^^^", "own stands once, behind the steps", ""},
		"original-own":          {"         ^^^", "original has the files' own names already", "write original"},
		"scan5-own":             {"      ^^^", "scan5 has the files' own names already", "write scan5"},
		"stored-bmp-own":        {"           ^^^", "a view of what is stored has the files' own names already", "write stored-bmp"},
		"scan10-bmp-own":        {"^^^^^^", "scan10 changes nothing", "write bmp-own"},
		"resize256-own":         {"         ^", "resize256 gives pixels", "end it with one of"},
		"bmp-scan5":             {"    ^^^^^", "scan5 cannot follow bmp", ""},
		"Resize256-bmp":         {"^^^^^^^^^", "unknown step", "did you mean resize256?"},
		"resize256_bmp":         {"^^^^^^^^^^^^^", "unknown step", ""},
		"jpeg101":               {"^^^^^^^", "from 1 to 100, not 101", ""},
		"jpeg":                  {"^^^^", "jpeg needs a number", "jpeg90"},
	} {
		_, err := r.Parse(spec)
		var e *transcode.SpecError
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", spec, err)
			continue
		}
		if got := e.Pointer(); got != spec+"\n"+want.carets {
			t.Errorf("%q:\n%s\nwant\n%s", spec, got, want.carets)
		}
		if !strings.Contains(e.Reason, want.reason) || !strings.Contains(e.Hint, want.hint) {
			t.Errorf("%q: %v", spec, err)
		}
	}
}

func TestNames(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, c := range []struct {
		spec, name string
		role       transcode.Role
		want       string
	}{
		{"bmp", "a.jpg", transcode.Auto, "a.bmp"},
		{"bmp", "a.b.JPEG", transcode.Auto, "a.b.bmp"},
		{"bmp", "labels.txt", transcode.Auto, "labels.txt"},
		{"bmp", "a.bmp", transcode.Auto, "a.bmp"},
		{"bmp", "a.DIB", transcode.Auto, "a.DIB"},
		{"bmp", ".jpg", transcode.Auto, ".jpg"},
		{"bmp", "noextension", transcode.Auto, "noextension"},
		{"scan5", "a.jpeg", transcode.Auto, "a.jpeg"},
		{"scan5", "a.png", transcode.Auto, "a.png"},
		{"resize256-npy", "a.webp", transcode.Auto, "a.npy"},
		{"ppm", "a.pgm", transcode.Auto, "a.pgm"},
		{"jpeg90", "a.tif", transcode.Image, "a.jpg"},
		{"jpeg90", "a.tif", transcode.Mask, "a.tif"},
		{"jpeg90", "a.jfif", transcode.Auto, "a.jpg"},
		{"resize256-jpeg90", "a.JPEG", transcode.Auto, "a.jpg"},
		{"resize256-bmp", "a.dib", transcode.Auto, "a.bmp"},
		{"scan5-png", "a.PNG", transcode.Auto, "a.png"},
		{"bmp-own", "a.JPEG", transcode.Auto, "a.JPEG"},
		{"resize256-jpeg90-own", "a.png", transcode.Auto, "a.png"},
		{"stored-bmp", "a.jpg", transcode.Auto, "a.jpg"},
		{"original", "a.jpg", transcode.Auto, "a.jpg"},
		{"png", "a.gif", transcode.Auto, "a.png"},
	} {
		p, err := r.Parse(c.spec)
		testenv.Must(t, err)
		if got := r.Name(p, c.name, c.role); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.spec, c.name, got, c.want)
		}
	}
	for _, name := range strings.Fields("a.jpg a.jpeg a.jpe a.jfif a.png a.bmp a.dib a.ppm a.pgm a.pbm a.pnm a.tif a.tiff a.webp a.gif A.JPG") {
		if !r.IsSample(name) {
			t.Errorf("%s is no sample", name)
		}
	}
	for _, name := range strings.Fields("a.txt a.npy a.json jpg a.jpg.txt") {
		if r.IsSample(name) {
			t.Errorf("%s is a sample", name)
		}
	}
}

// FuzzParse wants no panic, one spelling of each view, and an error that points
// into the spec.
func FuzzParse(f *testing.F) {
	r := codecs.Default(transcode.Limits{})
	for _, spec := range strings.Fields("original scan5 bmp-own stored-bmp stored-bmp-own own resize256-bmp resize256-crop224-center-chw-npy jpeg90 scan10-bmp resize-bmp float32-npy bmp- -- resize256-bmq decode") {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		p, err := r.Parse(spec)
		if err == nil {
			if p.String() != spec {
				t.Fatalf("%q has another spelling: %q", spec, p)
			}
			return
		}
		var e *transcode.SpecError
		if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(spec) || e.Reason == "" || !strings.HasPrefix(spec[e.Offset:], e.Word) {
			t.Fatalf("%q: %#v", spec, err)
		}
		_ = e.Pointer()
	})
}

// TestOneExtension: the files that a view makes of samples, of whatever format they are,
// have one extension, or all have their own names.
func TestOneExtension(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	views := strings.Fields("scan5 half-png bmp ppm npy png l3 jpeg90 resize256-bmp resize256-png resize256-ppm resize256-l3 resize256-jpeg90 grey-jpeg90 upright-bmp")
	formats := map[transcode.Format]string{
		transcode.JPEG: "jpg jpeg JPEG jpe jfif", transcode.PNG: "png PNG", transcode.BMP: "bmp dib", transcode.PNM: "ppm pgm PPM",
		transcode.TIFF: "tif tiff", transcode.WebP: "webp", transcode.GIF: "gif", transcode.L3: "l3",
	}
	for _, spec := range views {
		p, err := r.Parse(spec)
		testenv.Must(t, err)
		given := map[string]bool{}
		for format, extensions := range formats {
			info := transcode.Info{Format: format, Mode: transcode.ModeRGB, Width: 640, Height: 480}
			if r.Plan(p, info, transcode.Image).Unchanged() {
				continue
			}
			for ext := range strings.FieldsSeq(extensions) {
				name := "a." + ext
				if own := r.Name(p.WithOwnNames(), name, transcode.Image); own != name {
					t.Errorf("%s: with own names %s is listed as %s", spec, name, own)
				}
				if listed := r.Name(p, name, transcode.Image); !p.OwnNames() {
					given[listed] = true
				}
			}
		}
		if len(given) > 1 {
			t.Errorf("%s lists what it changes as %v", spec, given)
		}
	}
}

// TestDigest: a digest changes with the steps and with every implementation that
// takes part, and with nothing else.
func TestDigest(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	seen := map[string]string{}
	for _, spec := range []string{"original", "scan1", "scan5", "bmp", "npy", "resize256-bmp", "resize255-bmp", "scan5-bmp"} {
		p, err := r.Parse(spec)
		testenv.Must(t, err)
		d := r.Digest(p)
		if before, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", spec, before)
		}
		seen[d] = spec
		if own := r.Digest(p.WithOwnNames()); own != d {
			t.Errorf("%s: other names of the same bytes have another digest", spec)
		}
		other := codecs.Default(transcode.Limits{MaxPixels: 5})
		if p, err = other.Parse(spec); err != nil {
			t.Fatal(err)
		}
		if again := other.Digest(p); again != d {
			t.Errorf("%s: another registry of the same codecs gives %s, not %s", spec, again, d)
		}
	}
}

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
