package testenv

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Pictures lists the files that a pattern names in testdata/pictures of the project: small
// pictures of every kind.
func Pictures(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(top(t), "testdata/pictures", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("testdata/pictures has no %s, %v", pattern, err)
	}
	return paths
}

// Picture reads one of these files.
func Picture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top(t), "testdata/pictures", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ViewsFile is testdata/views.txt: what each view shows of each of these pictures, by view and
// name, as Digest tells it. What a view shows unchanged is not listed.
func ViewsFile(t testing.TB) string { return filepath.Join(top(t), "testdata/views.txt") }

// Views reads ViewsFile.
func Views(t testing.TB) map[[2]string]string {
	t.Helper()
	b, err := os.ReadFile(ViewsFile(t))
	if err != nil {
		t.Fatal(err)
	}
	views := map[[2]string]string{}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] != "#" {
			views[[2]string{f[0], f[1]}] = f[2] + " " + f[3]
		}
	}
	return views
}

// Digest is a file's size, and the first 16 digits of its SHA-256.
func Digest(b []byte) string { return fmt.Sprintf("%d %.8x", len(b), sha256.Sum256(b)) }
