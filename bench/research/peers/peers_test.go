package peers

import (
	"os/exec"
	"testing"
)

// TestRun has run.py test its own parts: statistics, arguments, errors, what peers have.
func TestRun(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/usr/bin/python3", "-B", "run.py", "--selftest")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("run.py --selftest: %v\n%s", err, out)
	}
}
