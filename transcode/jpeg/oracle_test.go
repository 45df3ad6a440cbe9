package jpeg

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// The tests compare with the programs of libjpeg-turbo, which is how this
// package defines correctness, so they fail where those are missing.

// tool runs one of libjpeg-turbo's programs and returns what it writes to
// standard output and to standard error.
func tool(t testing.TB, stdin []byte, name string, args ...string) (stdout, stderr []byte) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed (Debian: apt install libjpeg-turbo-progs): %v", name, err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	// Status 2 is for warnings.
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 2 {
		t.Fatalf("%s %v: %v: %s", name, args, err, errs.Bytes())
	}
	return out.Bytes(), errs.Bytes()
}

// photographs returns the pictures of the BSDS set beside the repository.
func photographs(t testing.TB) []string {
	t.Helper()
	return testenv.Shared(t, "bsds/*.jpg")
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	testenv.Must(t, err)
	return b
}

// checkOracle compares Progressive with jpegtran.
func checkOracle(t testing.TB, src []byte) Scans {
	t.Helper()
	want, _ := tool(t, src, "jpegtran", "-copy", "all", "-progressive")
	got, err := Progressive(src, Limits{})
	if err != nil {
		t.Fatalf("Progressive: %v", err)
	}
	if !bytes.Equal(got.Data, want) {
		t.Fatalf("result differs from jpegtran's at byte %d; lengths %d and %d", firstDifference(got.Data, want), len(got.Data), len(want))
	}
	return got
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func TestPictures(t *testing.T) {
	for _, file := range testenv.Pictures(t, "*.jpg") {
		checkOracle(t, read(t, file))
	}
}

func TestPhotographs(t *testing.T) {
	for _, file := range photographs(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src := read(t, file)
			s := checkOracle(t, src)
			again := checkOracle(t, s.Data)
			if !bytes.Equal(again.Data, s.Data) {
				t.Error("transcoding the result again changes it")
			}
		})
	}
}
