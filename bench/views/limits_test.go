package views

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestLimits: --limit-read and --limit-reads hold for whatever a mount reads, by
// whatever way it goes to the reader. Nothing is on a cold disk here: the limit is
// for the daemon, and holds for what the page cache has as well.
func TestLimits(t *testing.T) {
	program := places(t)
	source := dataset(t, "20", "-copies", "2", "-width", "640", "-height", "480")
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, testmount.Home(t), "pack", "--originals", "keep", source, store)
	files, size := list(t, source)
	for _, options := range []string{
		fmt.Sprintf("--limit-read %dB/s --cache page", size), fmt.Sprintf("--limit-read %dB/s --cache daemon", size), "--limit-reads " + strconv.Itoa(len(files)),
	} {
		for _, from := range []string{source, store} {
			t.Run(options+" of "+filepath.Base(from), func(t *testing.T) {
				t.Parallel()
				m := open(t, program, from, strings.Fields(options)...)
				names, _ := list(t, filepath.Join(m.Dir, "original"))
				began := time.Now()
				_, err := loader.Pass{Workers: 3}.Run(t.Context(), names)
				testenv.Must(t, err)
				if took := time.Since(began); took < 900*time.Millisecond {
					t.Errorf("took %v where the limit allows a second", took)
				}
			})
		}
	}
}
