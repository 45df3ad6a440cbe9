// Command testrun runs "go test" with its arguments, and says at the end how many tests
// were left out and why. The argument + begins those of a further run. It prints one line
// for each package, and what the tests that failed have printed.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	s := summary{out: os.Stdout, leftOut: map[string]int{}}
	code := 0
	for rest, more := os.Args[1:], true; more; {
		args := rest
		if i := slices.Index(rest, "+"); i >= 0 {
			args, rest = rest[:i], rest[i+1:]
		} else {
			more = false
		}
		if err := s.run(args); err != nil {
			fmt.Fprintln(os.Stderr, "go test:", err)
			code = 1
		}
	}
	fmt.Println(s.String())
	os.Exit(code)
}

// summary of all runs.
type summary struct {
	out     io.Writer
	passed  int
	failed  []string
	leftOut map[string]int // tests, by the reason
}

func (s *summary) run(args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	if !slices.Contains(args, "-race") { // which needs cgo
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = s.read(pipe)
	if err != nil {
		_, _ = io.Copy(io.Discard, pipe)
	}
	return cmp.Or(cmd.Wait(), err)
}

// event is a line of "go test -json": see "go doc test2json".
type event struct {
	Action, Package, Test, Output string
}

// reason is how t.Skip prints: "    file_test.go:12: the reason".
var reason = regexp.MustCompile(`(?m)^\s*\S+\.go:\d+: (.*)\n\s*--- SKIP`)

// read reads the events of one run.
func (s *summary) read(r io.Reader) error {
	type test struct{ pkg, name string }
	printed := map[test]*bytes.Buffer{} // by tests that run
	for d := json.NewDecoder(r); ; {
		var e event
		if err := d.Decode(&e); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("go test -json: %w", err)
		}
		t := test{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			fmt.Fprint(s.out, e.Output)
		case "output":
			if e.Test == "" {
				if e.Output != "PASS\n" && !strings.HasPrefix(e.Output, "?") {
					fmt.Fprint(s.out, e.Output)
				}
				continue
			}
			if printed[t] == nil {
				printed[t] = new(bytes.Buffer)
			}
			printed[t].WriteString(e.Output)
		case "pass", "fail", "skip":
			if e.Test == "" {
				// What still runs when a package ends was stopped, by a panic for one.
				for u, b := range printed {
					if u.pkg == e.Package {
						fmt.Fprint(s.out, b)
						delete(printed, u)
					}
				}
				continue
			}
			b := printed[t]
			delete(printed, t)
			switch e.Action {
			case "pass":
				s.passed++
			case "fail":
				s.failed = append(s.failed, e.Package+" "+e.Test)
				fmt.Fprint(s.out, b)
			case "skip":
				why := "(no reason is given)"
				if m := reason.FindSubmatch(b.Bytes()); m != nil {
					why = strings.TrimPrefix(string(m[1]), "skipped: ")
				}
				s.leftOut[why]++
			}
		}
	}
}

func (s *summary) String() string {
	var b strings.Builder
	for _, name := range s.failed {
		fmt.Fprintln(&b, "failed:", name)
	}
	all := 0
	why := slices.Collect(maps.Keys(s.leftOut))
	slices.SortFunc(why, func(a, b string) int {
		return cmp.Or(s.leftOut[b]-s.leftOut[a], strings.Compare(a, b))
	})
	for i, w := range why {
		all += s.leftOut[w]
		why[i] = fmt.Sprintf("%d: %s", s.leftOut[w], w)
	}
	fmt.Fprintf(&b, "%d tests passed, %d failed, %d were left out", s.passed, len(s.failed), all)
	if all > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(why, "; "))
	}
	return b.String()
}
