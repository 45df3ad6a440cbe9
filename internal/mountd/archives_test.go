package mountd

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/internal/testenv"
)

// TestArchivesAtURL: a place of objects that holds nothing but archives shows their members, as a directory of them does; one
// that holds other files shows these.
func TestArchivesAtURL(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	root := t.TempDir()
	const table = "test-00000-of-00001.parquet"
	data, err := os.ReadFile("../source/archive/testdata/parquet/hub/data/" + table)
	testenv.Must(t, err)
	for _, name := range []string{"tables/" + table, "loose/" + table, "below/data/" + table} {
		testenv.Must(t, os.MkdirAll(filepath.Join(root, path.Dir(name)), 0o755))
		testenv.Must(t, os.WriteFile(filepath.Join(root, name), data, 0o644))
	}
	testenv.Must(t, os.WriteFile(filepath.Join(root, "loose/a.jpg"), nil, 0o644))
	all := func(at string) map[string]int64 {
		d, err := OpenDataset(t.Context(), remote.Access{}, at, source.Options{}, bucket.Options{MaxAge: -1})
		testenv.Must(t, err)
		defer d.Close()
		found := map[string]int64{}
		for name, err := range source.Files(d.List) {
			testenv.Must(t, err)
			a, err := d.Stat(name)
			testenv.Must(t, err)
			found[name] = a.Size
		}
		return found
	}
	for dir, files := range map[string]int{"tables": 12, "below": 12, "loose": 2} {
		here, there := all(filepath.Join(root, dir)), all("file://"+filepath.Join(root, dir))
		if len(here) != files || !maps.Equal(here, there) {
			t.Errorf("%s: %d files, as a URL %d: %v", dir, len(here), len(there), there)
		}
	}
	at := filepath.Join(root, "loose")
	loose, err := source.Open(at, source.Options{})
	testenv.Must(t, err)
	defer loose.Close()
	if got, want := shownAsFiles(loose, at), table+" is shown as a file, since a.jpg lies beside it; pipefs mount "+filepath.Join(at, table)+" MNT shows its members"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
