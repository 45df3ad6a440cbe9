package mountd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// Files that lead past the mount are found, and no name that only looks like it.
func TestPathsInto(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.txt": "a.jpg\n/data/ds/img/b.jpg\n/data/ds/img/c.jpg", "b.YAML": "path: /data/ds\r\n", "c.csv": "file:///data/ds/a.jpg,1\n",
		"d.csv": "1,/data/ds", "e.json": `{"root": "/real/ds/img"}`, "picture.jpg": "/data/ds/a.jpg", "long.txt": "/data/ds/a\n" + strings.Repeat("x", listBytes),
		"others.txt": "/data/ds2/a.jpg\n/my/data/ds/a.jpg\ndata/ds/a.jpg\n/data/ds-old/a\n/data/dsä/a\n/data\n",
	} {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	testenv.Must(t, unix.Mkfifo(filepath.Join(dir, "pipe.txt"), 0o600))
	if got, want := strings.Join(PathsInto(dir, "/data/ds", "/real/ds"), " "), "a.txt:2 b.YAML:1 c.csv:1 d.csv:1 e.json:1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
