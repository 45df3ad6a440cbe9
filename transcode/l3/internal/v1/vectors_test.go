package v1

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestVectors decodes what other encoders wrote, and writes it again.
func TestVectors(t *testing.T) {
	name := regexp.MustCompile(`^(.*)\.n(\d+)(\.ref)?\.l3$`)
	paths := testenv.Shared(t, "l3/*.l3")
	same := 0
	for _, path := range paths {
		m := name.FindStringSubmatch(filepath.Base(path))
		if m == nil {
			t.Fatalf("what is %s?", path)
		}
		want, src := readPPM(t, filepath.Join(filepath.Dir(path), m[1]+".ppm")), read(t, path)
		wantDecoded(t, src, want)
		patch, _ := strconv.Atoi(m[2])
		switch got := encode(t, want, patch); {
		case bytes.Equal(got, src):
			same++
		case m[3] != "":
			t.Errorf("%s: other bytes than the authors' encoder", path)
		default:
			t.Logf("%s: other bytes, %d, there are %d", path, len(got), len(src))
		}
	}
	t.Logf("%d files, %d of them encoded with the same bytes", len(paths), same)
}

// TestVectorPictures takes the pictures that have no file through the extension.
func TestVectorPictures(t *testing.T) {
	paths := testenv.Shared(t, "l3/o*.ppm")
	for _, path := range paths {
		for _, patch := range []int{1, 7, 8, 64, 128, 255} {
			p := readPPM(t, path)
			b := encode(t, p, patch)
			if plain := p.width%patch == 0 && p.height%patch == 0; strings.HasPrefix(string(b), magic) != plain {
				t.Errorf("%v in patches of %d: starts with %q", p, patch, b[:4])
			}
			wantDecoded(t, b, p)
		}
	}
}
