package walk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

// try makes a walk of its own.
func try(t *testing.T, c config, ops []Op) (err error) {
	t.Helper()
	w := newWalk(t, c)
	if f := w.run(ops); f != nil {
		err = f.err
	}
	return errors.Join(err, w.close())
}

// shrink returns a list as short as it can be that fails. It tries the last operations, all before
// them that have to do with the same file, and all.
func shrink(t *testing.T, c config, last, all []Op, failed error) string {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	fails := func(ops []Op) bool {
		for range 3 {
			if time.Now().After(deadline) {
				break
			}
			if try(t, c, ops) != nil {
				return true
			}
		}
		return false
	}
	for _, ops := range [][]Op{last, about(all, failed), all} {
		if !fails(ops) {
			continue
		}
		for size := len(ops) / 2; size > 0 && time.Now().Before(deadline); size = min(size/2, len(ops)/2) {
			for from := 0; from+size <= len(ops) && time.Now().Before(deadline); {
				if without := append(append([]Op{}, ops[:from]...), ops[from+size:]...); fails(without) {
					ops = without
				} else {
					from += size
				}
			}
		}
		return fmt.Sprintf("what was walked, as far as it is needed:\n%s\n%s", c, text(ops))
	}
	return fmt.Sprintf("it did not fail again: what was walked last:\n%s\n%s", c, text(last[max(0, len(last)-100):]))
}

// about are the operations of the world, and those of readers on files that show the same file of
// the dataset as the one that was wrong.
func about(ops []Op, failed error) (some []Op) {
	var at *fs.PathError
	if !errors.As(failed, &at) {
		return nil
	}
	opened := map[[2]int]string{}
	for _, o := range ops {
		path := o.Path
		switch o.Do {
		case "open":
			opened[[2]int{o.Who, o.Slot}] = path
		case "whole", "stat", "statx", "access", "list":
		default:
			path = opened[[2]int{o.Who, o.Slot}]
		}
		if o.Who == world || path == at.Path || source(path) != "" && source(path) == source(at.Path) {
			some = append(some, o)
		}
	}
	return some
}

// TestLists makes walks again that once failed.
func TestLists(t *testing.T) {
	testenv.Mounts(t)
	files, err := filepath.Glob("testdata/*.walk")
	testenv.Must(t, err)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			testenv.Must(t, err)
			var ops []Op
			var c config
			for line := range strings.Lines(string(data)) {
				if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
					continue
				}
				if c.source == "" {
					c = parseConfig(line)
					continue
				}
				o, err := parseOp(line)
				testenv.Must(t, err)
				ops = append(ops, o)
			}
			for range 3 {
				if err := try(t, c, ops); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
