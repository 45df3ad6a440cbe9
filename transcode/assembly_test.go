package transcode_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestAssemblyIsAVX2 looks for registers that only AVX-512 has. The generator hands them out where the sixteen
// of AVX2 are not enough, and a processor without AVX-512 ends the program there.
func TestAssemblyIsAVX2(t *testing.T) {
	wide := regexp.MustCompile(`\b(Z\d+|[XY](1[6-9]|2\d|3[01])|K[0-7])\b`)
	files := 0
	testenv.Must(t, filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_amd64.s") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if code, _, _ := strings.Cut(line, "//"); wide.MatchString(code) {
				t.Errorf("%s:%d: %s", path, n, strings.TrimSpace(code))
			}
		}
		return err
	}))
	if files < 4 {
		t.Errorf("%d files of assembly were found", files)
	}
}
