package loader

import (
	"math"
	"os/exec"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestParseTicks(t *testing.T) {
	const stat = "cpu  900 90 900 9000 90 9 9 90 900 0\n" +
		"cpu0 100 10 200 1000 50 1 2 37 70 0\n" +
		"cpu1 500 0 100 400 0 0 0 0 0 0\n" +
		"cpu12 1 1 1 1 1 1 1 1 1 1\n" +
		"intr 12345 6 7\nctxt 1\n"
	only := func(cpus ...int) func(int) bool {
		return func(cpu int) bool {
			for _, c := range cpus {
				if c == cpu {
					return true
				}
			}
			return false
		}
	}
	for _, test := range []struct {
		stat      string
		mine      func(int) bool
		busy, all float64
		known     bool
	}{
		{stat, only(0), 3.5, 14, true},
		{stat, only(0, 1), 9.5, 24, true},
		{stat, only(5), 0, 0, false},
		{"cpu0 0 0 0 0 0 0 0 0 0 0\n", only(0), 0, 0, false}, // a sandbox that does not tell
		{"cpu0 1 2 x 4 5 6 7 8 9 10\n", only(0), 0, 0, false},
		{"cpu0 1 2 3\n", only(0), 0, 0, false},
		{"", only(0), 0, 0, false},
	} {
		got, known := parseTicks([]byte(test.stat), test.mine)
		if math.Abs(got.busy-test.busy) > 1e-9 || math.Abs(got.all-test.all) > 1e-9 || known != test.known {
			t.Errorf("%q: %+v, %v", test.stat, got, known)
		}
	}
}

// TestOthers: a process that nobody measured is seen, and is not if it was.
func TestOthers(t *testing.T) {
	if _, known := readTicks(); !known {
		t.Skip("this system does not tell what its processors do")
	}
	watch := Watch()
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	testenv.Must(t, cmd.Run())
	burnt := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	unknown, known := watch.Since(0), watch.Since(burnt)
	if unknown.Busy <= 0 || unknown.Busy > 1 || unknown.Others <= 0 {
		t.Errorf("%+v, after %.2f s of another process", unknown, burnt)
	}
	if known.Others >= unknown.Others {
		t.Errorf("others are %+v with and %+v without what another process was measured to use", known, unknown)
	}
}
