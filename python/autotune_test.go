package python_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

func TestMain(m *testing.M) { os.Exit(testmount.Main(m)) }

// TestAutotune has pipefs.autotune tune on a mount. The judgements are in
// testdata/check_autotune.py.
func TestAutotune(t *testing.T) {
	testenv.Slow(t)
	env := testmount.Home(t)
	mnt := testmount.Mount(t, env, testmount.Generate(t, "-samples", "24", "-width", "160", "-height", "120", "-png-every", "0"))
	interpreter := os.Getenv("PYTHON")
	if interpreter == "" {
		interpreter = "/usr/bin/python3"
	}
	cmd := exec.Command(interpreter, "testdata/check_autotune.py", testmount.Binary(t), mnt)
	cmd.Env = append(env, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=pipefs")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v (PyTorch is in python3-torchvision)\n%s", interpreter, err, out)
	}
	if !strings.Contains(string(out), "Ran 8 tests") {
		t.Errorf("not all of its tests have run:\n%s", out)
	}
	t.Logf("%s", out)
}
