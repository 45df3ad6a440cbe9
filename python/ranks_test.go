package python_test

import (
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestRanks has the ranks of several trainings read a random view at once, as many as a
// machine with eight GPUs has: 64 workers.
func TestRanks(t *testing.T) {
	testenv.Slow(t)
	run(t, "testdata/check_ranks.py", testmount.Generate(t, "-samples", "45", "-classes", "3", "-width", "96", "-height", "72", "-png-every", "6"), "8", "4")
}
