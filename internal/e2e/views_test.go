package e2e

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

var cacheModes = []string{"page", "daemon"}

// TestViews compares every view with the dataset: bytes of the originals,
// pixels and scans by Pillow, sizes by every way of reading. TestJPEG has other
// readers look at scans.
func TestViews(t *testing.T) {
	t.Parallel()
	sets := map[string]func(t *testing.T, mode string) string{
		"generated": func(t *testing.T, _ string) string { return testmount.Generate(t, "-samples", "24", "-png-every", "4") },
		"photographs": func(t *testing.T, mode string) string {
			tree := filepath.Join(t.TempDir(), "tree")
			if mode == "page" || testenv.Soak() {
				link(t, tree, "kodak", shared(t, "kodak"))
				link(t, tree, "bsds", shared(t, "bsds"))
			} else { // what a picture is does not depend on who caches it
				linkSome(t, tree, "kodak", shared(t, "kodak"), 5)
				linkSome(t, tree, "bsds", shared(t, "bsds"), 5)
			}
			return tree
		},
	}
	for name, set := range sets {
		for _, mode := range cacheModes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				dataset := set(t, mode)
				env := testmount.Home(t)
				mnt := testmount.Mount(t, env, dataset, "--cache", mode)
				if diff := cmp.Diff(hashes(t, dataset), hashes(t, filepath.Join(mnt, "original"))); diff != "" {
					t.Errorf("original (-dataset +mount):\n%s", diff)
				}
				t.Log(python(t, "testdata/check_views.py", dataset, mnt))
			})
		}
	}
}
