package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// TestContentNobodyKnows wants a file whose content is of no format that a codec knows
// to be itself in every view, from a dataset and from a store: a BMP without the header
// of a file, as clipboards have it, a page of HTML, and nothing at all.
func TestContentNobodyKnows(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	files := map[string][]byte{
		"clipboard.dib": {40, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 24, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0},
		"page.jpg":      []byte("<html>404 not found</html>"),
		"empty.png":     {},
	}
	for name, content := range files {
		testenv.Must(t, os.WriteFile(filepath.Join(root, name), content, 0o644))
	}
	packWith(t, registry, root, dir, pack.Rebuild)
	for what, f := range map[string]fixture{"dataset": newFixture(t, root, nil), "store": fromStore(t, registry, dir, nil)} {
		for i, spec := range views {
			for name, content := range files {
				if got, err := f.read(Key(10*i+len(name)), f.file(t, name), view(t, spec)); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s of %s from a %s: %q, %v", spec, name, what, got, err)
				}
			}
		}
	}
	s := openStore(t, dir)
	for name := range files {
		sample, err := s.Lookup(name)
		if err != nil || !Unread(sample.Fault) || sample.Info != (transcode.Info{}) {
			t.Errorf("%s is stored with the fault %q, %v", name, sample.Fault, err)
		}
	}
	for fault, want := range map[string]bool{
		"truncated: jpeg, byte 2: input ends": false, "": false,
	} {
		if Unread(fault) != want {
			t.Errorf("%q: %v", fault, !want)
		}
	}
}
