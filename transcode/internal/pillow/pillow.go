// Package pillow lets tests ask Pillow, NumPy and torchvision what the right
// answer is. A test that cannot ask them fails: silence would look like success.
package pillow

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// python is the interpreter that distributions install the libraries for; the
// one in front of the PATH may be another. PIPEFS_PYTHON names one with other releases.
var python = cmp.Or(os.Getenv("PIPEFS_PYTHON"), "/usr/bin/python3")

const install = "this test compares with Pillow, NumPy and torchvision: install python3-torchvision"

//go:embed open.py
var openScript string

// Run runs a Python program with arguments and returns what it printed.
func Run(t testing.TB, program string, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program.py")
	testenv.Must(t, os.WriteFile(path, []byte(program), 0o644))
	cmd := exec.Command(python, append([]string{path}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		hint := ""
		if _, missing := os.Stat(python); missing != nil || strings.Contains(stderr.String(), "ModuleNotFoundError") {
			hint = "\n" + install
		}
		t.Fatalf("%s: %v\n%s%s", python, err, stderr.Bytes(), hint)
	}
	return out
}

// Array is what np.asarray(Image.open(path)) gives.
type Array struct {
	Path  string
	Error string // of opening or loading; then nothing else is set
	Mode  string // Pillow's
	Shape []int  // height, width and, if there are several, channels
	// DType is NumPy's name, with the byte order in front.
	DType string
	// Orientation is what EXIF says, 0 for nothing.
	Orientation int
	// Transparency: the picture has it apart from an alpha channel.
	Transparency bool
	Animated     bool
	// Palette is RGBA, where the mode is P.
	Palette []byte
	// Data is the array in C order, as it lies in memory.
	Data []byte
}

// Values returns the numbers in Data; booleans are 0 and 1.
func (a *Array) Values() []int {
	size := int(a.DType[len(a.DType)-1] - '0')
	v := make([]int, 0, len(a.Data)/size)
	for b := a.Data; len(b) >= size; b = b[size:] {
		switch size {
		case 1:
			v = append(v, int(b[0]))
		case 2:
			v = append(v, int(binary.LittleEndian.Uint16(b)))
		default:
			v = append(v, int(int32(binary.LittleEndian.Uint32(b))))
		}
	}
	return v
}

// Open opens all files in one process. A file called *.npy is loaded by
// np.load(mmap_mode='r').
func Open(t testing.TB, paths ...string) []Array {
	t.Helper()
	return open(t, nil, paths)
}

// OpenRGB opens files as Image.open(path).convert("RGB") does, and returns the pixels of
// those that Pillow reads, by their paths.
func OpenRGB(t testing.TB, paths ...string) map[string][]byte {
	t.Helper()
	pixels := map[string][]byte{}
	for _, a := range open(t, []string{"RGB"}, paths) {
		if a.Error == "" {
			pixels[a.Path] = a.Data
		}
	}
	return pixels
}

func open(t testing.TB, mode, paths []string) []Array {
	t.Helper()
	dir := t.TempDir()
	list, out := filepath.Join(dir, "list"), filepath.Join(dir, "out")
	testenv.Must(t, os.WriteFile(list, []byte(strings.Join(paths, "\n")), 0o644))
	Run(t, openScript, append([]string{list, out}, mode...)...)
	b, err := os.ReadFile(out)
	testenv.Must(t, err)
	arrays := make([]Array, 0, len(paths))
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		var a Array
		testenv.Must(t, json.Unmarshal(line, &a))
		a.Path = paths[len(arrays)]
		n := 0
		if a.Error == "" {
			n = int(a.DType[len(a.DType)-1] - '0')
			for _, side := range a.Shape {
				n *= side
			}
		}
		a.Data, b = rest[:n:n], rest[n:]
		arrays = append(arrays, a)
	}
	if len(arrays) != len(paths) {
		t.Fatalf("%d answers to %d questions", len(arrays), len(paths))
	}
	return arrays
}
