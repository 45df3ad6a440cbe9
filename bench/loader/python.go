package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// FindTorch finds an interpreter that has torchvision: the one that is given, or, if
// that is empty, the first of $PYTHON, python3 and /usr/bin/python3 that has.
func FindTorch(ctx context.Context, python string) (string, error) {
	return findPython(ctx, python, "torchvision", "torch")
}

// findPython finds an interpreter that has modules, of which the first brings the
// others along. Finding them loads none of them.
func findPython(ctx context.Context, python string, modules ...string) (string, error) {
	candidates := []string{python}
	if python == "" {
		candidates = []string{"python3", "/usr/bin/python3"}
		if chosen := os.Getenv("PYTHON"); chosen != "" {
			candidates = append([]string{chosen}, candidates...)
		}
	}
	var looked []string
	for _, name := range candidates {
		file, err := exec.LookPath(name)
		if err != nil {
			looked = append(looked, fmt.Sprintf("%s: not there", name))
			continue
		}
		out, err := exec.CommandContext(ctx, file, append([]string{"-c", "import sys; from importlib.util import find_spec\n" +
			"print(*[name for name in sys.argv[1:] if find_spec(name) is None])"}, modules...)...).Output()
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		missing := strings.Fields(string(out))
		switch {
		case err != nil:
			var exit *exec.ExitError
			if errors.As(err, &exit) && len(exit.Stderr) > 0 {
				err = errors.New(strings.TrimSpace(string(exit.Stderr)))
			}
			looked = append(looked, fmt.Sprintf("%s: %v", file, err))
		case len(missing) > 0:
			looked = append(looked, fmt.Sprintf("%s: no %s", file, strings.Join(missing, ", ")))
		default:
			return file, nil
		}
	}
	return "", fmt.Errorf("no Python with %s (%s): install it for one of them, or set PYTHON to an interpreter that has it",
		modules[0], strings.Join(looked, "; "))
}

// script makes a command that runs a Python script which is part of this program. The
// script is in memory, so that nothing is left behind on any disk. Close the file once
// the command has started.
func script(python, name, text string, args ...string) (*exec.Cmd, *os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("memory for %s: %w", name, os.NewSyscallError("memfd_create", err))
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return nil, nil, err
	}
	// Python opens it again, and so reads from its beginning. It is the first file after
	// standard error.
	cmd := exec.Command(python, append([]string{"/proc/self/fd/3"}, args...)...)
	cmd.ExtraFiles = []*os.File{f}
	cmd.Env = append(os.Environ(), "PYTHONUTF8=1")
	return cmd, f, nil
}

// pythonName is a file name in JSON as Python has it: a byte that is not UTF-8 is half
// of a surrogate pair.
type pythonName string

// MarshalJSON implements [json.Marshaler].
func (n pythonName) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return json.Marshal(string(n))
	}
	b := []byte{'"'}
	for rest := string(n); rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && size == 1 {
			b = append(b, `\udc`...)
			b = strconv.AppendUint(b, uint64(rest[0]), 16)
		} else {
			text, err := json.Marshal(rest[:size])
			if err != nil {
				return nil, err
			}
			b = append(b, text[1:len(text)-1]...)
		}
		rest = rest[size:]
	}
	return append(b, '"'), nil
}
