// Command curves trains the same small network through torchvision's ImageFolder and through
// epoch views, with several seeds each, and shows the losses side by side.
//
//	bin/research/curves -program bin/pipefs -pictures DIR
//
// It writes curves.md, curves.svg and results.json. What was measured before with the same
// settings is not measured again.
package main

import (
	"bytes"
	"context"
	_ "embed" // for the program in Python
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/bench/research/labelled"
	"github.com/pipefs/pipefs/bench/research/run"
	"github.com/pipefs/pipefs/python"
)

//go:embed curves.py
var script string

// settings are the flags.
type settings struct {
	run.Paths
	python, pictures, recipe  string
	seeds, epochs, side, each int
}

// set is what is trained on.
type set struct {
	name, text  string
	train, test string // test is empty where nothing is left out for it
	flip        bool
}

// trained is what curves.py tells.
type trained struct {
	Loss        []float64 `json:"loss"`     // of each epoch
	Accuracy    float64   `json:"accuracy"` // on pictures that were not trained on
	Samples     int       `json:"samples"`
	Classes     int       `json:"classes"`
	Torch       string    `json:"torch"`
	Torchvision string    `json:"torchvision"`
}

// ways are the arguments of curves.py, and how the report calls them.
var ways = [2]struct{ arg, name string }{{"imagefolder", "ImageFolder"}, {"epochs", "epoch views"}}

func main() { run.Main("curves", measure) }

func measure(ctx context.Context) error {
	var s settings
	s.Flags("bin/curves", "where the results go")
	flag.StringVar(&s.python, "python", "/usr/bin/python3", "Python that has PyTorch and torchvision")
	flag.StringVar(&s.pictures, "pictures", "", "directory of photographs; without, only generated pictures are trained on")
	flag.StringVar(&s.recipe, "recipe", "", "what follows crop and flip: randaug2_9, trivialaugment or autoaugment")
	flag.IntVar(&s.seeds, "seeds", 2, "trainings of each kind")
	flag.IntVar(&s.epochs, "epochs", 10, "of a training")
	flag.IntVar(&s.side, "side", 64, "of the crops, in pixels")
	flag.IntVar(&s.each, "each", 50, "generated pictures of each class")
	flag.Parse()
	if flag.NArg() > 0 || s.seeds < 1 || s.epochs < 1 {
		return errors.New("see -help")
	}
	return s.Work(func(work string) error { return s.all(ctx, work) })
}

// all trains on all sets in both ways, and reports.
func (s *settings) all(ctx context.Context, work string) error {
	if err := s.install(work); err != nil {
		return err
	}
	sets, err := s.sets(ctx, work)
	if err != nil {
		return err
	}
	results, err := s.results()
	if err != nil {
		return err
	}
	for _, set := range sets {
		for seed := range s.seeds {
			for _, way := range ways {
				key := s.key(set, way.arg, seed)
				if _, ok := results[key]; ok {
					continue
				}
				t, err := s.train(ctx, work, set, way.arg, seed)
				if err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "%s, %s, seed %d: loss %.3f at the end\n", set.name, way.name, seed, t.Loss[len(t.Loss)-1])
				results[key] = *t
				if err := s.write(results); err != nil {
					return err
				}
			}
		}
	}
	return s.report(sets, results)
}

// install puts the package pipefs where Python finds it, and the program first in PATH.
func (s *settings) install(work string) error {
	dir := filepath.Join(work, "python")
	path := filepath.Dir(s.Program) + string(os.PathListSeparator) + os.Getenv("PATH")
	err := errors.Join(os.CopyFS(dir, python.Package), os.WriteFile(filepath.Join(work, "curves.py"), []byte(script), 0o644))
	for name, value := range map[string]string{
		"PYTHONPATH": dir, "PYTHONDONTWRITEBYTECODE": "1", "PATH": path,
		"XDG_CACHE_HOME": filepath.Join(work, "cache"), "XDG_STATE_HOME": filepath.Join(work, "state"),
	} {
		err = errors.Join(err, os.Setenv(name, value))
	}
	return err
}

// sets makes the generated set, and classes of the photographs: ten, of files whose names
// are neighbours. Those of ImageNet begin with WordNet's numbers, so that neighbours are of a kind.
func (s *settings) sets(ctx context.Context, work string) (sets []set, err error) {
	if s.pictures != "" {
		const classes = 10
		dir := filepath.Join(work, "photographs")
		names, err := filepath.Glob(filepath.Join(s.pictures, "*.[jJ][pP]*[gG]")) // in order
		if err != nil {
			return nil, err
		}
		if len(names) < 2*classes {
			return nil, fmt.Errorf("%s has %d JPEG files: want %d at least", s.pictures, len(names), 2*classes)
		}
		for i, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			to := filepath.Join(dir, fmt.Sprintf("class%d", i*classes/len(names)), filepath.Base(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o644)); err != nil {
				return nil, err
			}
		}
		sets = append(sets, set{name: "photographs", train: dir, flip: true,
			text: fmt.Sprintf("%d photographs of %s in %d classes, each of files whose names are neighbours, flipped at random", len(names), filepath.Base(s.pictures), classes)})
	}
	const test = 50
	dir := filepath.Join(work, "generated")
	if err := labelled.Write(ctx, dir, s.each, test); err != nil {
		return nil, err
	}
	// A flip would make classes alike: they differ in what leans left or right.
	return append(sets, set{name: "generated", train: filepath.Join(dir, "train"), test: filepath.Join(dir, "test"),
		text: fmt.Sprintf("%d generated pictures in %d classes, and %d others for the test, not flipped", s.each*labelled.Classes, labelled.Classes, test*labelled.Classes)}), nil
}

func (s *settings) train(ctx context.Context, work string, set set, way string, seed int) (*trained, error) {
	args := []string{filepath.Join(work, "curves.py"), way, set.train, "--seed", fmt.Sprint(seed), "--epochs", fmt.Sprint(s.epochs), "--side", fmt.Sprint(s.side)}
	if set.test != "" {
		args = append(args, "--test", set.test)
	}
	if set.flip {
		args = append(args, "--flip")
	}
	if s.recipe != "" {
		args = append(args, "--recipe", s.recipe)
	}
	cmd := exec.CommandContext(ctx, s.python, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("curves.py %s (PyTorch is Debian's python3-torchvision): %w: %s", way, err, strings.TrimSpace(stderr.String()))
	}
	var t trained
	if err := json.Unmarshal(out, &t); err != nil {
		return nil, fmt.Errorf("curves.py: %w: %s", err, out)
	}
	return &t, nil
}

// key names a training in the results.
func (s *settings) key(set set, way string, seed int) string {
	return fmt.Sprintf("%s: %s, %d epochs, crops of %d %s, seed %d", set.text, way, s.epochs, s.side, s.recipe, seed)
}

func (s *settings) results() (map[string]trained, error) {
	results := map[string]trained{}
	b, err := os.ReadFile(filepath.Join(s.Out, "results.json"))
	if errors.Is(err, os.ErrNotExist) {
		return results, nil
	}
	return results, errors.Join(err, json.Unmarshal(b, &results))
}

// write replaces the file atomically, since the run may be stopped at any time.
func (s *settings) write(results map[string]trained) error {
	b, err := json.MarshalIndent(results, "", " ")
	name := filepath.Join(s.Out, "results.json")
	return errors.Join(err, os.WriteFile(name+".new", append(b, '\n'), 0o644), os.Rename(name+".new", name))
}
