package python_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

func TestMain(m *testing.M) { os.Exit(testmount.Main(m)) }

// run runs a program of Python with the package of this source tree, and the program pipefs
// that belongs to it. Nothing may be left mounted.
func run(t testing.TB, args ...string) string {
	t.Helper()
	testenv.Mounts(t)
	here, err := filepath.Abs(".")
	testenv.Must(t, err)
	runtime, err := os.MkdirTemp("/tmp", "pf") // sockets need short paths
	testenv.Must(t, err)
	interpreter := cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")
	cmd := exec.Command(interpreter, args...)
	cmd.Env = append(testmount.Home(t), "HOME="+t.TempDir(), "XDG_RUNTIME_DIR="+runtime, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+here,
		"PATH="+filepath.Dir(testmount.Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v (PyTorch is in python3-torchvision)\n%s", interpreter, err, out)
	}
	testenv.Eventually(t, func() error {
		left, err := filepath.Glob(filepath.Join(runtime, "pipefs", "*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left behind: %v", left)
		}
		return err
	})
	testenv.Must(t, os.RemoveAll(runtime))
	if t.Failed() {
		t.FailNow()
	}
	return string(out)
}

// TestAutotune has pipefs.autotune tune on a mount. The judgements are in
// testdata/check_autotune.py.
func TestAutotune(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	out := run(t, "testdata/check_autotune.py", testmount.Generate(t, "-samples", "24", "-width", "160", "-height", "120", "-png-every", "0"))
	if !strings.Contains(out, "Ran 8 tests") {
		t.Error("not all of its tests have run")
	}
	t.Log(out)
}

// TestAutotuneExample runs the example on a few photographs, or on generated pictures where
// there are none.
func TestAutotuneExample(t *testing.T) {
	testenv.Slow(t)
	dataset := filepath.Join(t.TempDir(), "photographs")
	if photographs, _ := filepath.Glob("../../shared/data/imagenet/*.JPEG"); len(photographs) >= 400 {
		testenv.Must(t, os.Mkdir(dataset, 0o755))
		for i := 0; i < 400; i += 5 {
			b, err := os.ReadFile(photographs[i])
			testenv.Must(t, err)
			testenv.Must(t, os.WriteFile(filepath.Join(dataset, filepath.Base(photographs[i])), b, 0o644))
		}
	} else {
		t.Log("no photographs: the pictures are generated")
		dataset = testmount.Generate(t, "-samples", "80", "-width", "300", "-height", "200", "-png-every", "0")
	}
	told := filepath.Join(t.TempDir(), "told.json")
	t.Log(run(t, "examples/autotune.py", dataset, "--epochs", "3", "--disk", "100MB/s", "--json", told))
	var runs []struct {
		Name   string
		Epochs []struct {
			Bytes float64
			View  string
			Loss  float64
		}
		Measurements []struct {
			Epoch, Scans int
			Similarity   map[string]float64
			Problem      string
			Bytes        float64
		}
	}
	b, err := os.ReadFile(told)
	testenv.Must(t, err)
	testenv.Must(t, json.Unmarshal(b, &runs))
	if len(runs) != 3 || runs[0].Name != "scan10" || runs[1].Name != "scan5" || runs[2].Name != "autotune" {
		t.Fatalf("%+v", runs)
	}
	full, five, tuned := runs[0].Epochs, runs[1].Epochs, runs[2].Epochs
	if len(full) != 3 || len(five) != 3 || len(tuned) != 3 || len(runs[2].Measurements) != 1 {
		t.Fatalf("%+v", runs)
	}
	// Before it tunes for the first time it is the training with all scans.
	m := runs[2].Measurements[0]
	if m.Epoch != 2 || m.Problem != "" || len(m.Similarity) != 4 || tuned[0] != full[0] || tuned[1].Loss != full[1].Loss || tuned[1].Bytes != full[1].Bytes+m.Bytes {
		t.Errorf("the first two epochs: %+v, with all scans %+v, %+v", tuned, full, m)
	}
	// Then it reads what the gradients ask for.
	third, all := tuned[2].Bytes-tuned[1].Bytes, full[2].Bytes-full[1].Bytes
	if tuned[2].View != fmt.Sprint("scan", m.Scans) || m.Scans < 10 && third >= all || five[2].Bytes >= full[2].Bytes {
		t.Errorf("the third epoch read %.0f bytes of %s after %+v; with all scans it is %.0f", third, tuned[2].View, m, all)
	}
}
