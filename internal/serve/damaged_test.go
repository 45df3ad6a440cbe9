package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/testenv"
)

// TestDamagedJPEG wants a file that is damaged in the middle to be the same picture
// from a dataset and from a store, and unchanged where its scans are wanted.
func TestDamagedJPEG(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	path := filepath.Join(root, "a.jpg")
	src, err := os.ReadFile(path)
	testenv.Must(t, err)
	copy(src[len(src)*2/3:], []byte{0xff, 0xff, 0xd3, 0, 0x17, 0xff, 0xd1, 0xfe, 0xfe, 0xfe})
	testenv.Must(t, os.WriteFile(path, src, 0o644))
	packWith(t, registry, root, dir, pack.Rebuild)
	unpacked, packed := newFixture(t, root, nil), fromStore(t, registry, dir, nil)
	for i, spec := range views {
		v := view(t, spec)
		a, err := unpacked.read(Key(i), unpacked.file(t, "a.jpg"), v)
		if err != nil && spec != "scan2-resize32-npy" {
			t.Errorf("%s of a dataset: %v", spec, err)
		}
		b, err2 := packed.read(Key(i), packed.file(t, "a.jpg"), v)
		if err2 != nil || err == nil && !bytes.Equal(a, b) {
			t.Errorf("%s of a store: %v, or it differs from the dataset's", spec, err2)
		}
		if v.Len() == 1 && v.Steps()[0].Kind.Split != nil && !bytes.Equal(a, src) {
			t.Errorf("%s: not the file itself", spec)
		}
	}
}
