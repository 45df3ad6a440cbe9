package jpeg

import (
	"bytes"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// checkSequential compares Sequential with jpegtran.
func checkSequential(t testing.TB, src []byte) {
	t.Helper()
	want, _ := tool(t, src, "jpegtran", "-copy", "all", "-optimize")
	got, err := Sequential(src, Limits{})
	testenv.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Fatalf("result differs from jpegtran's at byte %d; lengths %d and %d", firstDifference(got, want), len(got), len(want))
	}
}

func TestSequential(t *testing.T) {
	for _, sampling := range samplings {
		for _, coding := range []string{"", "-restart 7B", "-progressive", "-quality 1", "-quality 100"} {
			for _, size := range [][2]int{{1, 1}, {17, 33}, {100, 75}} {
				checkSequential(t, synthetic(t, size[0], size[1], sampling+" "+coding))
			}
		}
	}
	for name := range scripts {
		checkSequential(t, synthetic(t, 100, 75, "-sample 2x2 -scans "+name))
	}
	checkSequential(t, disturb(t, synthetic(t, 35, 19, "-sample 2x2"), 0))
}

// TestSequentialOfCuts makes baseline files of each fidelity, from the scans of
// real photographs.
func TestSequentialOfCuts(t *testing.T) {
	for i, file := range photographs(t) {
		s, err := Progressive(read(t, file), Limits{})
		testenv.Must(t, err)
		checkSequential(t, append(bytes.Clone(s.Data[:s.Ends[i%len(s.Ends)]]), EOI[:]...))
	}
}
