package python_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestInterruptedRun: pipefs.ray sees an interrupt that comes while a destructor of Ray runs. Ray need not be there;
// `make test-cluster` has the same with Ray.
func TestInterruptedRun(t *testing.T) {
	testenv.Slow(t)
	cmd := exec.Command("/usr/bin/python3", "-B", "testdata/check_interrupted.py")
	cmd.Env = append(os.Environ(), "PYTHONPATH=.")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
