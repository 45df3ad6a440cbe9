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
