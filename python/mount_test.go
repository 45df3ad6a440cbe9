package python_test

import (
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestMount has one Python use pipefs.mount. The judgements are in tests/smoke.py, which
// make test-wheel runs with each Python and the wheel.
func TestMount(t *testing.T) {
	testenv.Slow(t)
	run(t, "tests/smoke.py", testmount.Generate(t, "-samples", "6", "-width", "64", "-height", "48", "-png-every", "0"))
}

// TestRandomView compares what RandomView and draw give with what torchvision makes.
func TestRandomView(t *testing.T) {
	testenv.Slow(t)
	run(t, "testdata/check_random.py", testmount.Generate(t, "-samples", "24", "-classes", "3", "-png-every", "6"))
}
