package loader

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

//go:embed calibrate.py
var calibrateScript string

const (
	calibrateTime  = 4 * time.Second       // all of it, about
	calibratePass  = 40 * time.Millisecond // at least, if there is time
	calibrateFiles = 6                     // of a format
	calibrateLook  = 64                    // files that are looked at
	calibrateMost  = 64 << 20              // bytes of a file
)

// Calibrate tells how fast [Builtin] reads pictures beside Pillow: the ratio of their
// rates on one core each, in turns, for JPEG, PNG and BMP, by the name of the format. The
// rates are by CPU time, which other programs on the machine hardly change. What the
// garbage collector uses on other cores is included. Calibrate takes some of the files,
// and makes the BMP files from them. A format that none of the files has gets no entry.
// python is an interpreter; if it is empty, one is looked for. Where there is no Pillow
// there is neither an error nor a ratio.
func Calibrate(ctx context.Context, python string, files []string) (map[string]float64, error) {
	began := time.Now()
	python, err := findPython(ctx, python, "PIL")
	if err != nil {
		return nil, ctx.Err()
	}
	dir, err := os.MkdirTemp("", "pipefs-calibrate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	registry := codecs.Default(transcode.Limits{})
	sets, err := calibrateSets(ctx, registry, dir, files)
	if err != nil {
		return nil, err
	}
	p, err := Converse(python, "calibrate.py", calibrateScript)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	pillow := func(files []string) (float64, error) {
		var answer struct {
			Seconds float64
			Error   string
		}
		if err := p.Ask(ctx, files, &answer); err != nil {
			return 0, err
		}
		if answer.Error != "" {
			return 0, fmt.Errorf("%w: %s", errPillow, answer.Error)
		}
		return answer.Seconds, nil
	}
	load := Load(registry)
	builtin := func(files []string) (float64, error) {
		r, err := Pass{Workers: 1, Decode: load}.Run(ctx, files)
		return r.CPU, err
	}
	ratios := map[string]float64{}
	left := len(sets)
	for format, set := range sets {
		until := time.Now().Add((calibrateTime - time.Since(began)) / time.Duration(left))
		left--
		ratio, err := beside(pillow, builtin, set, until)
		if err != nil {
			return nil, err
		}
		if ratio > 0 {
			ratios[format.String()] = ratio
		}
	}
	return ratios, nil
}

// errPillow: Pillow does not read a file.
var errPillow = errors.New("Pillow")

// beside measures both in turns until then, and returns the median of a/b; 0 where
// Pillow reads none of the files.
func beside(a, b func([]string) (float64, error), set []string, until time.Time) (float64, error) {
	// The first pass is not counted. It tells how many files make a pass that is long
	// enough, and short enough for several pairs.
	var files []string
	var took float64
	budget := time.Until(until).Seconds() / 4
	for _, name := range set {
		one, err := a([]string{name})
		if errors.Is(err, errPillow) {
			continue
		}
		if err == nil {
			_, err = b([]string{name})
		}
		if err != nil {
			return 0, err
		}
		if len(files) > 0 && took+one > budget {
			break
		}
		files, took = append(files, name), took+one
	}
	if len(files) == 0 {
		return 0, nil
	}
	files = slices.Repeat(files, max(1, min(1000, int(calibratePass.Seconds()/took))))
	var ratios []float64
	for len(ratios) == 0 || time.Now().Before(until) && len(ratios) < 15 {
		ofA, err := a(files)
		if err != nil {
			return 0, err
		}
		ofB, err := b(files)
		if err != nil {
			return 0, err
		}
		ratios = append(ratios, ofA/ofB)
	}
	return stats.Median(ratios), nil
}

// calibrateSets copies some of the files into dir, by format, and makes BMP of some.
// Files that cannot be decoded are left out.
func calibrateSets(ctx context.Context, r *transcode.Registry, dir string, files []string) (map[transcode.Format][]string, error) {
	bmp, err := r.Parse("bmp")
	if err != nil {
		return nil, err
	}
	sets := map[transcode.Format][]string{}
	add := func(f transcode.Format, data []byte) error {
		if len(sets[f]) == calibrateFiles {
			return nil
		}
		name := filepath.Join(dir, strconv.Itoa(len(sets[f]))+"."+strings.ToLower(f.String()))
		sets[f] = append(sets[f], name)
		return os.WriteFile(name, data, 0o600)
	}
	// From all over the list, which may be in the order of classes or formats.
	step := max(1, len(files)/calibrateLook)
	began := time.Now()
	for i := 0; i < len(files) && (i == 0 || time.Since(began) < calibrateTime/4); i += step {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		st, err := os.Stat(files[i])
		if err != nil || st.Size() > calibrateMost {
			continue
		}
		data, err := os.ReadFile(files[i])
		if err != nil {
			continue // the epoch itself will say so
		}
		info, err := r.ProbeBytes(data)
		if err != nil {
			continue
		}
		if info.Format != transcode.JPEG && info.Format != transcode.PNG && info.Format != transcode.BMP ||
			len(sets[info.Format]) == calibrateFiles {
			continue
		}
		plan := r.Plan(bmp, info, transcode.Image)
		made, err := plan.Run(ctx, data)
		switch {
		case err != nil:
			continue
		case info.Format != transcode.BMP && !plan.Unchanged():
			if err := add(transcode.BMP, made); err != nil {
				return nil, err
			}
		}
		if err := add(info.Format, data); err != nil {
			return nil, err
		}
	}
	return sets, nil
}
