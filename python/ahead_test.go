package python_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestAhead reads a dataset that is 20 ms away, with hints and without.
func TestAhead(t *testing.T) {
	testenv.Slow(t)
	dataset := testmount.Generate(t, "-samples", "192", "-classes", "4", "-width", "96", "-height", "72", "-png-every", "6")
	there, most := far(t, dataset, 20*time.Millisecond)
	t.Log(run(t, "testdata/check_ahead.py", there, dataset))
	// Two workers without hints have two.
	if n := most.Load(); n < 8 {
		t.Errorf("%d round trips at once", n)
	}
}

// BenchmarkAhead reads photographs that are 20 ms away in shuffled order, by 2 workers.
func BenchmarkAhead(b *testing.B) {
	pictures := testenv.Shared(b, "imagenet/*")
	root := filepath.Join(b.TempDir(), "photos")
	for _, p := range pictures {
		class := filepath.Join(root, strings.Split(filepath.Base(p), "_")[0])
		testenv.Must(b, os.MkdirAll(class, 0o755))
		data, err := os.ReadFile(p)
		testenv.Must(b, err)
		testenv.Must(b, os.WriteFile(filepath.Join(class, filepath.Base(p)), data, 0o644))
	}
	there, _ := far(b, root, 20*time.Millisecond)
	for b.Loop() {
		fmt.Println(run(b, "testdata/bench_ahead.py", there))
	}
}
