package serve

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

// TestFileIsOpenedOnce: the file whose header was read at a LOOKUP is the one that is read,
// wherever its name leads meanwhile. Of files that nobody comes for only a few stay open.
func TestFileIsOpenedOnce(t *testing.T) {
	root := t.TempDir()
	photo, err := os.ReadFile(filepath.Join(writeDataset(t), "a.jpg"))
	testenv.Must(t, err)
	testenv.Must(t, os.Mkdir(filepath.Join(root, "d"), 0o755))
	for i := range probedFiles + 1 {
		testenv.Must(t, os.WriteFile(filepath.Join(root, "d", fmt.Sprintf("%02d.jpg", i)), photo, 0o644))
	}
	f := newFixture(t, root, nil)
	v := view(t, "bmp")
	var handles []*Handle
	for i := range probedFiles + 1 {
		h, err := f.Resolve(t.Context(), Key(i), f.file(t, fmt.Sprintf("d/%02d.jpg", i)), v)
		testenv.Must(t, err)
		handles = append(handles, h)
	}
	wanted := want(t, root, "d/00.jpg", v)
	// The files stay what they are; their paths lead nowhere.
	testenv.Must(t, os.Rename(filepath.Join(root, "d"), filepath.Join(root, "e")))
	for i, h := range handles {
		c, err := h.Open(t.Context())
		if i == 0 { // the oldest was closed for the newest
			if !errors.Is(err, source.ErrChanged) {
				t.Errorf("the first file: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		got := make([]byte, c.Size())
		if _, err := c.ReadAt(got, 0); err != nil || !bytes.Equal(got, wanted) {
			t.Errorf("file %d: %v", i, err)
		}
		c.Release()
	}
}
