package l3gpu

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/fakecuda"
	"github.com/pipefs/pipefs/transcode"
)

func TestMain(m *testing.M) { os.Exit(testmount.Main(m)) }

// TestMount has the daemon of a mount decode L3 files on a GPU, for which package fakecuda
// has a library and a machine.
func TestMount(t *testing.T) {
	dataset := t.TempDir()
	want := map[string][]byte{}
	for i, o := range allWays {
		px := pictures.Pixels(transcode.ModeRGB, 70+i, 41)
		name := strconv.Itoa(i)
		testenv.Must(t, os.WriteFile(filepath.Join(dataset, name+".l3"), encoded(t, px, o), 0o644))
		want[name] = px.Pix
	}
	library, launches := fakecuda.Library(t)
	env := append(testmount.Home(t), library...)
	mnt := testmount.Mount(t, env, dataset, "--gpu", "0", "--no-background")
	for name, pix := range want {
		got, err := os.ReadFile(filepath.Join(mnt, "ppm", name+".ppm"))
		if err != nil || !bytes.HasSuffix(got, pix) {
			t.Errorf("%s: %d bytes, %v, or other pixels", name, len(got), err)
		}
	}
	if launches.Load() == 0 {
		t.Error("nothing was decoded on the GPU")
	}
	if out := testmount.Command(t, env, "stats", mnt); !strings.Contains(out, "batches that failed") {
		t.Errorf("stats:\n%s", out)
	}
}
