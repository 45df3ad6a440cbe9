package pygpu

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// modules is where those of Python are.
const modules = "../../../../python"

// python runs a program of Python, which has the modules and this directory on its path.
func python(t *testing.T, files []*os.File, environment []string, args ...string) string {
	t.Helper()
	interpreter := os.Getenv("PYTHON")
	if interpreter == "" {
		interpreter = "/usr/bin/python3"
	}
	path := []string{modules, "."}
	for i, dir := range path {
		at, err := filepath.Abs(dir)
		testenv.Must(t, err)
		path[i] = at
	}
	cmd := exec.Command(interpreter, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "PIPEFS_PTX=",
		"PYTHONPATH="+strings.Join(path, string(os.PathListSeparator)))
	cmd.Env = append(cmd.Env, environment...)
	cmd.ExtraFiles = files
	out, err := cmd.CombinedOutput()
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || bytes.Contains(out, []byte("No module named 'torch'")) {
			t.Fatalf("%s: %v (PyTorch is in python3-torchvision)\n%s", interpreter, err, out)
		}
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func cases(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writePictures(t, dir)
	writeHeaders(t, dir)
	return dir
}

// TestDecoder has the module decode on an interpreter of its kernels. The judgements are
// in testdata/check_gpu.py.
func TestDecoder(t *testing.T) {
	testenv.Slow(t)
	dir := cases(t)
	out := python(t, []*os.File{startMachine(t)}, []string{"PIPEFS_TEST_GPU=3", "PIPEFS_TEST_CASES=" + dir}, "testdata/check_gpu.py", "-v")
	t.Log(out)
}

// TestRealDevice has it decode the same on a GPU.
func TestRealDevice(t *testing.T) {
	testenv.Slow(t)
	said := python(t, nil, nil, "-c", `
import torch
print("yes" if torch.cuda.is_available() else f"PyTorch {torch.__version__} sees no GPU, CUDA {torch.version.cuda}")`)
	if said = strings.TrimSpace(said); said != "yes" {
		t.Skip("skipped: " + said)
	}
	t.Log(python(t, nil, []string{"PIPEFS_TEST_GPU=real", "PIPEFS_TEST_CASES=" + cases(t)}, "testdata/check_gpu.py", "-v"))
}

// TestBench compiles the benchmark, and runs what of it needs no GPU.
func TestBench(t *testing.T) {
	testenv.Slow(t)
	out := python(t, nil, nil, filepath.Join(modules, "bench_gpu.py"), "--pictures", "2", "--width", "64", "--height", "48", "--seconds", "0.1")
	if !strings.Contains(out, "| PNG, Pillow") {
		t.Errorf("no table:\n%s", out)
	}
}
