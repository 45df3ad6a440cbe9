package loader

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
)

// tree writes n pictures, JPEG and PNG in turn, into two classes, and returns the
// directory and their names.
func tree(t *testing.T, n int) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	for i := range n {
		img := pictures.Photo(96+i, 80, uint64(i))
		name := fmt.Sprintf("class%d/%03d.jpg", i%2, i)
		if i%4 == 3 {
			name = fmt.Sprintf("class%d/%03d.png", i%2, i)
		}
		testenv.Must(t, pictures.Write(filepath.Join(dir, name), img))
		names = append(names, name)
	}
	return dir, names
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	testenv.Must(t, os.WriteFile(name, data, 0o644))
}

// bytesOf is how long files are together.
func bytesOf(t *testing.T, dir string, names []string) (n int64) {
	t.Helper()
	for _, name := range names {
		st, err := os.Stat(filepath.Join(dir, name))
		testenv.Must(t, err)
		n += st.Size()
	}
	return n
}

// check wants an epoch of these files, and figures that make sense.
func check(t *testing.T, e Epoch, samples int, bytes int64) {
	t.Helper()
	if e.Samples != samples || e.Bytes != bytes {
		t.Errorf("%d samples of %d bytes, want %d of %d", e.Samples, e.Bytes, samples, bytes)
	}
	if e.Seconds <= 0 || e.Rate <= 0 || e.CPU <= 0 {
		t.Errorf("%+v", e)
	}
}
