package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/bench/research/run"
	"github.com/pipefs/pipefs/bench/views"
)

// settings are the flags.
type settings struct {
	program, python string
	out, doc        string
	pictures        string
	only            string
	scale           float64
	again           bool
}

func main() { run.Main("reproduce", measure) }

func measure(ctx context.Context) error {
	var s settings
	flag.StringVar(&s.program, "program", "bin/pipefs", "pipefs")
	flag.StringVar(&s.python, "python", "/usr/bin/python3", "Python that has PyTorch and Pillow")
	flag.StringVar(&s.out, "out", "bin/reproduce", "where results are kept, and temporary files lie")
	flag.StringVar(&s.doc, "doc", "", "the report; its figures go to a directory of that name (default docs/generated/reproduction.md; with -only, reproduction.md beside the results)")
	flag.StringVar(&s.pictures, "pictures", "", "directory of JPEG photographs; generated ones otherwise")
	flag.StringVar(&s.only, "only", "", "names of experiments, with commas between them, or of a paper; all otherwise")
	flag.Float64Var(&s.scale, "scale", 1, "how much of everything is measured")
	flag.BoolVar(&s.again, "again", false, "measure nothing: write the report of what was measured before")
	list := flag.Bool("list", false, "list the names of the experiments")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if *list {
		for _, i := range items() {
			if i.run != nil {
				fmt.Printf("%-18s %s %s: %s\n", i.name, nameOf(i.paper), i.part(), i.title)
			}
		}
		return nil
	}
	switch {
	case s.doc != "":
	case s.only != "":
		// The report of some experiments must not take the place of that of all.
		s.doc = filepath.Join(s.out, "reproduction.md")
	default:
		s.doc = "docs/generated/reproduction.md"
	}
	return s.reproduce(ctx)
}

func nameOf(key string) string {
	for _, p := range papers {
		if p.key == key {
			return p.name
		}
	}
	return key
}

// chosen are the experiments that -only names.
func (s *settings) chosen() (chosen []*item, err error) {
	words := strings.FieldsFunc(s.only, func(r rune) bool { return r == ',' })
	met := map[string]bool{}
	for _, i := range items() {
		if i.run == nil {
			continue
		}
		if len(words) == 0 {
			chosen = append(chosen, i)
		}
		for _, w := range words {
			if w == i.name || w == i.paper {
				met[w] = true
				if !slices.Contains(chosen, i) {
					chosen = append(chosen, i)
				}
			}
		}
	}
	for _, w := range words {
		if !met[w] {
			return nil, fmt.Errorf("there is no experiment %q: -list lists them", w)
		}
	}
	return chosen, nil
}

// reproduce runs the chosen experiments and writes the report.
func (s *settings) reproduce(ctx context.Context) error {
	if s.scale <= 0 {
		return errors.New("-scale has to be more than 0")
	}
	chosen, err := s.chosen()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	k, err := readKept(s.out)
	if err != nil {
		return err
	}
	if !s.again {
		err = s.measure(ctx, chosen, k)
	}
	// Also when it was stopped, the report has what was measured.
	if err = errors.Join(err, render(s.doc, k)); err == nil {
		fmt.Fprintln(os.Stderr, "the report is", s.doc)
	}
	return err
}

// kept is the file of results.
type kept struct {
	Machine views.Machine      `json:"machine"`
	Results map[string]*result `json:"results"` // by name
}

func readKept(dir string) (*kept, error) {
	k := &kept{Results: map[string]*result{}}
	name := filepath.Join(dir, "results.json")
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(b, k)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

// write replaces the file atomically, since the run may be stopped at any time.
func (k *kept) write(dir string) error {
	b, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "results.json")
	if err := os.WriteFile(name+".new", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// measure runs experiments one after the other. One that fails is recorded, and the
// next one runs.
func (s *settings) measure(ctx context.Context, chosen []*item, k *kept) (err error) {
	e, err := s.newEnv()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	e.kept = k
	if k.Machine, err = views.ThisMachine(e.work); err != nil {
		return err
	}
	version, err := exec.CommandContext(ctx, e.program, "version").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w: `make build` builds it", e.program, err)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	began := time.Now()
	var failed []string
	expected, spent := 0.0, 0.0 // seconds, as estimated, of all and of what was done
	for _, i := range chosen {
		expected += i.seconds
	}
	for n, i := range chosen {
		left := expected - spent
		if spent > 0 {
			left *= time.Since(began).Seconds() / spent
		} else {
			left *= s.scale
		}
		e.prefix = fmt.Sprintf("[%d/%d] %s", n+1, len(chosen), i.name)
		e.say("%s %s: %s (about %s left)", nameOf(i.paper), i.part(), i.title, time.Duration(left*1e9).Round(10*time.Second))
		from := time.Now()
		r, err := i.run(ctx, e)
		if stopped := context.Cause(ctx); stopped != nil {
			return errors.New("stopped; what was finished is kept")
		}
		if err != nil {
			r = &result{Error: err.Error()}
			failed = append(failed, i.name)
			e.say("failed: %v", err)
		}
		r.Time, r.Seconds, r.Scale, r.Version = from.UTC().Truncate(time.Second), time.Since(from).Seconds(), s.scale, first
		if r.Error == "" {
			e.say("%.0f s: %s", r.Seconds, r.Ours)
		}
		if old := k.Results[i.name]; r.Error != "" && old != nil && old.Error == "" {
			old.Again = fmt.Sprintf("Run again on %s it failed: %s", r.Time.Format(time.DateOnly), r.Error)
		} else {
			k.Results[i.name] = r
		}
		if err := errors.Join(k.write(s.out), e.limit(0), e.tidy()); err != nil {
			return err
		}
		spent += i.seconds
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d experiments failed: %s", len(failed), len(chosen), strings.Join(failed, ", "))
	}
	return nil
}
