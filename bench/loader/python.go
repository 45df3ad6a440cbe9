package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pipefs/pipefs/internal/human"
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

// said is what a command prints about an epoch; 0 is what it does not print.
type said struct {
	rate    float64 // samples/s
	samples int
	bytes   int64
}

// rateWords match "1,234.5 images/s", and what else is written like it.
var rateWords = regexp.MustCompile(`(?i)(?:^|[^\w.,+-])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?)` +
	`\s*(?:samples|images|imgs?)\s*(?:/|per)\s*s(?:ec(?:ond)?s?)?\b`)

// parseSaid reads a rate from a line: a number and nothing else, an object of JSON, or
// a number with its unit. Where there are several it is the last.
func parseSaid(line string) said {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "{") {
		var object map[string]any
		if json.Unmarshal([]byte(line), &object) == nil {
			return ofObject(object)
		}
	}
	if rate, ok := parseRate(line); ok {
		return said{rate: rate}
	}
	if all := rateWords.FindAllStringSubmatch(line, -1); all != nil {
		rate, _ := parseRate(strings.ReplaceAll(all[len(all)-1][1], ",", ""))
		return said{rate: rate}
	}
	return said{}
}

func ofObject(object map[string]any) (s said) {
	number := func(names ...string) float64 {
		for _, name := range names {
			if v, ok := object[name].(float64); ok && v > 0 {
				return v
			}
		}
		return 0
	}
	s.rate = number("samples_per_s", "images_per_s", "samples_per_second", "images_per_second")
	s.samples = int(number("samples", "images"))
	s.bytes = int64(number("bytes"))
	return s
}

// parseRate reads a number that can be a rate.
func parseRate(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, false
	}
	return v, true
}

// viewWord stands for the directory in a user's command.
const viewWord = "{view}"

// Command is a program of the user's that reads an epoch of a directory.
type Command struct{ line string }

var _ Loader = (*Command)(nil)

// NewCommand makes a loader of a line for sh, in which {view} is where the directory
// goes.
func NewCommand(line string) (*Command, error) {
	if !strings.Contains(line, viewWord) {
		return nil, fmt.Errorf("the command %q does not say where the directory goes: write %s there", line, viewWord)
	}
	return &Command{line}, nil
}

// Name implements [Loader].
func (c *Command) Name() string { return c.line }

// Close implements [Loader].
func (c *Command) Close() error { return nil }

// Epoch implements [Loader]. Seconds are those of the whole command, its start included.
// The rate is the one in the last line that the command prints. If there is none, it is
// the number of samples by the seconds, or 0 where that number is not known, since Files
// may be nil. The command does not get Seed, Warm and Compute. Disk is what this process
// read meanwhile.
func (c *Command) Epoch(ctx context.Context, job Job) (Epoch, error) {
	dir, err := filepath.Abs(job.Dir)
	if err != nil {
		return Epoch{}, err
	}
	if err := ctx.Err(); err != nil {
		return Epoch{}, err
	}
	line := strings.ReplaceAll(c.line, viewWord, human.Word(dir))
	cmd := exec.Command("sh", "-c", line)
	stdout := tail{most: 64 << 10}
	cmd.Stdout = &stdout
	began, disk := time.Now(), OwnDisk()
	p, err := start(cmd)
	if err != nil {
		return Epoch{}, err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.kill()
	}
	e := Epoch{Seconds: time.Since(began).Seconds(), Disk: OwnDisk() - disk}
	if p.err != nil || ctx.Err() != nil {
		return Epoch{}, p.failure(ctx, line)
	}
	e.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	said := parseSaid(stdout.lines(1))
	e.Samples, e.Bytes, e.Rate = len(job.Files), said.bytes, said.rate
	if job.Files == nil {
		e.Samples = said.samples
	}
	if e.Rate == 0 {
		e.Rate = float64(e.Samples) / e.Seconds
	}
	return e, nil
}
