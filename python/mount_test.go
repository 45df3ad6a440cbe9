package python_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestMount has one Python use pipefs.mount. The judgements are in tests/smoke.py, which
// make test-wheel runs with each Python and the wheel.
func TestMount(t *testing.T) {
	testenv.Mounts(t)
	run, err := os.MkdirTemp("/tmp", "pf") // sockets need short paths
	testenv.Must(t, err)
	defer os.RemoveAll(run)
	cmd := exec.Command("/usr/bin/python3", "tests/smoke.py", testmount.Generate(t, "-samples", "6", "-width", "64", "-height", "48", "-png-every", "0"))
	cmd.Env = append(testmount.Home(t), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "XDG_RUNTIME_DIR="+run, "HOME="+t.TempDir(),
		"PATH="+filepath.Dir(testmount.Binary(t))+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	testenv.Eventually(t, func() error {
		left, err := filepath.Glob(filepath.Join(run, "pipefs", "*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left behind: %v", left)
		}
		return err
	})
}
