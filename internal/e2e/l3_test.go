package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/l3"
)

// TestContinueL3 wants a store that has nothing but L3 of another mode than the usual one to
// be read, and to be continued as it is.
func TestContinueL3(t *testing.T) {
	t.Parallel()
	env := testmount.Home(t)
	pictures := testmount.Generate(t, "-samples", "6", "-png-every", "1")
	old := filepath.Join(t.TempDir(), "st")
	registry := codecs.New(transcode.Limits{}, codecs.Options{L3: l3.Options{Mode: l3.Fast}})
	kinds := registry.Kinds()
	d, err := source.Open(pictures, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	pack := pack.Dataset{
		Registry: registry, Dir: d, Originals: pack.Drop,
		Represent: kinds[slices.IndexFunc(kinds, func(k *transcode.Kind) bool { return k.Name == "l3" })],
	}
	if report, err := store.Pack(t.Context(), old, pack, pack, store.PackOptions{}); err != nil || report.Failed > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	same := func() {
		t.Helper()
		want, got := filepath.Join(t.TempDir(), "want"), filepath.Join(t.TempDir(), "got")
		testmount.Command(t, env, "export", pictures, "bmp", want)
		testmount.Command(t, env, "export", old, "bmp", got)
		if diff := cmp.Diff(hashes(t, want), hashes(t, got)); diff != "" {
			t.Errorf("bmp (-dataset +store):\n%s", diff)
		}
		if kept := testmount.Command(t, env, "info", old); !strings.Contains(kept, "l3fast2 ") || strings.Contains(kept, "l3dense") {
			t.Error(kept)
		}
	}
	same()
	more := testmount.Generate(t, "-samples", "2", "-png-every", "1", "-classes", "1", "-width", "99")
	testenv.Must(t, os.CopyFS(filepath.Join(pictures, "more"), os.DirFS(more)))
	out := testmount.Command(t, env, "pack", "--represent", "l3", "--originals", "drop", pictures, old)
	if !strings.HasPrefix(out, "packed 3 files, skipped 7 unchanged") { // each has its list of labels
		t.Error(out)
	}
	same()
}
