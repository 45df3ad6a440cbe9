package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/python"
)

// TestImports: the modules as a mount shows them, and the package pipefs, can be imported by
// every Python that is here, without any other package.
func TestImports(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	dir := t.TempDir()
	testenv.Must(t, os.CopyFS(dir, python.Modules))
	testenv.Must(t, os.CopyFS(dir, python.Package))
	modules, err := filepath.Glob(filepath.Join(dir, "*.py"))
	if err != nil || len(modules) < 5 {
		t.Fatal(modules, err)
	}
	const program = `
import glob, importlib, os, sys
sys.path.insert(0, sys.argv[1])
for path in sorted(glob.glob(sys.argv[1] + "/*.py")):
    importlib.import_module(os.path.basename(path)[:-3])
import pipefs.autotune
assert "torch" not in sys.modules
print(sys.version.split()[0])`
	for _, interpreter := range []string{"/usr/bin/python3", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14"} {
		// Some places have a name for a Python that is not installed.
		if interpreter != "/usr/bin/python3" && exec.Command(interpreter, "-c", "").Run() != nil {
			t.Logf("there is no %s", interpreter)
			continue
		}
		// -I -S: no package is in the way, and none helps.
		out, err := exec.Command(interpreter, "-B", "-I", "-S", "-W", "error", "-c", program, dir).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", interpreter, err, out)
		}
		t.Logf("%s: %s", interpreter, out)
	}
}

// TestRanks has the ranks of several trainings read a random view at once, as many as a
// machine with eight GPUs has: 64 workers.
func TestRanks(t *testing.T) {
	testenv.Slow(t)
	run(t, "testdata/check_ranks.py", testmount.Generate(t, "-samples", "45", "-classes", "3", "-width", "96", "-height", "72", "-png-every", "6"), "8", "4")
}

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
