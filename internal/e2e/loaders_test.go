package e2e

import (
	"encoding/json"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testmount"
)

var (
	loaderVenvs   = flag.String("loaders", "", "directory of the virtual environments of all loaders, as make test-loaders installs them")
	updateLoaders = flag.Bool("update-loaders", false, "write the tables and the code of docs/generated/loaders.md")
)

// TestLoader has loaders read every kind of file in the views, and compares what they find
// with docs/generated/loaders.md. By itself that is torchvision; make test-loaders installs the others.
func TestLoader(t *testing.T) {
	t.Parallel()
	dataset := filepath.Join(t.TempDir(), "dataset")
	python(t, "testdata/loaders/dataset.py", dataset)
	env := testmount.Home(t)
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", dataset, store)
	testmount.Command(t, env, "materialize", store, "bmp", "--fraction", "0.5")
	if files := photographs(t); len(files) > 0 {
		python(t, "testdata/loaders/dataset.py", append([]string{dataset}, files...)...)
	}
	mnt := testmount.Mount(t, env, dataset)
	packed := testmount.Mount(t, env, store, "--mix-format", "stored-bmp")

	var options []string
	if *loaderVenvs != "" {
		options = append(options, "--venvs", *loaderVenvs)
	}
	if *updateLoaders {
		options = append(options, "--update")
	}
	t.Log("\n" + python(t, "testdata/loaders/check.py", append(options, dataset, mnt, packed)...))
}

// photographs are a few of those beside the project, where there are any.
func photographs(t *testing.T) (some []string) {
	t.Helper()
	for _, pattern := range []string{"imagenet/*.JPEG", "kodak/*.png"} {
		files, err := filepath.Glob(filepath.Join("../../../shared/data", pattern))
		if err != nil {
			t.Fatal(err)
		}
		some = append(some, files[:min(4, len(files))]...)
	}
	return some
}

// TestBenchLoader has the loader of pipefs bench read one epoch of some views.
func TestBenchLoader(t *testing.T) {
	t.Parallel()
	const samples = 36
	mnt := testmount.Mount(t, testmount.Home(t), testmount.Generate(t, "-samples", "36", "-width", "200", "-height", "150", "-png-every", "3"))
	for _, view := range []string{"bmp", "npy", "scan5", "resize256-bmp", "resize256-npy"} {
		out := python(t, "../../bench/loader/imagefolder.py", "--workers", "2", filepath.Join(mnt, view))
		var row struct{ Images, Files, Bytes int }
		if err := json.Unmarshal([]byte(lastLine(out)), &row); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if row.Images != samples || row.Files != samples || row.Bytes == 0 {
			t.Errorf("%s: %+v", view, row)
		}
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
