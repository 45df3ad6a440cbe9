package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"github.com/pipefs/pipefs/bench/research/labelled"
	"github.com/pipefs/pipefs/python"
)

// withPython puts the package pipefs where Python finds it, and this program first in PATH.
// It returns the directory that also holds the examples.
func (e *env) withPython() (dir string, err error) {
	dir = filepath.Join(e.work, "python")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.CopyFS(dir, python.Package); err != nil {
		return "", err
	}
	return dir, errors.Join(os.Setenv("PYTHONPATH", dir), os.Setenv("PYTHONDONTWRITEBYTECODE", "1"),
		os.Setenv("PATH", filepath.Dir(e.program)+string(os.PathListSeparator)+os.Getenv("PATH")))
}

// tuned is what examples/autotune.py tells of a training.
type tuned struct {
	Name         string       `json:"name"` // a view, or "autotune"
	Epochs       []tunedEpoch `json:"epochs"`
	Measurements []struct {
		Epoch      float64            `json:"epoch"`
		Similarity map[string]float64 `json:"similarity"`
		Scans      int                `json:"scans"`
		Problem    string             `json:"problem"`
		Bytes      float64            `json:"bytes"`
	} `json:"measurements"`
	Accuracy float64 `json:"accuracy"`
	Test     int     `json:"test"` // pictures
}

type tunedEpoch struct {
	Epoch   int     `json:"epoch"`
	Seconds float64 `json:"seconds"` // since the training began
	Bytes   float64 `json:"bytes"`   // read since then
	View    string  `json:"view"`
	Loss    float64 `json:"loss"`
}

func (t *tuned) last() tunedEpoch { return t.Epochs[len(t.Epochs)-1] }

var wordNet = regexp.MustCompile(`^n\d{8}_`)

// tuningSet is what is trained on: photographs of ImageNet where there are some, and the
// labelled set otherwise.
func (e *env) tuningSet(ctx context.Context) (dir, text string, err error) {
	dir = filepath.Join(e.used, "photographs")
	if e.pictures != "" {
		names, err := e.photographs(ctx, e.n(400, 100))
		if err != nil {
			return "", "", err
		}
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !wordNet.MatchString(filepath.Base(n)) })
		if len(names) >= 100 {
			for _, name := range names {
				b, err := os.ReadFile(name)
				if err == nil {
					err = os.MkdirAll(dir, 0o755)
				}
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o644)
				}
				if err != nil {
					return "", "", err
				}
			}
			return dir, fmt.Sprintf("%s: is it an animal or not", e.photoSet(len(names))), nil
		}
	}
	dir, each := filepath.Join(e.used, "labelled"), e.n(60, 13)
	if err := labelled.Write(ctx, dir, each, 1); err != nil {
		return "", "", err
	}
	return filepath.Join(dir, "train"), fmt.Sprintf("%d generated pictures of %d×%d pixels, %d classes, since -pictures has no photographs whose names begin with a WordNet id", labelled.Classes*each, labelled.Size, labelled.Size, labelled.Classes), nil
}

// pcrTuning is Figure 14.
func pcrTuning(ctx context.Context, e *env) (*result, error) {
	const disk = "10MB/s"
	dataset, text, err := e.tuningSet(ctx)
	if err != nil {
		return nil, err
	}
	scripts, err := e.withPython()
	if err != nil {
		return nil, err
	}
	busy := load()
	file, epochs := filepath.Join(e.used, "tuned.json"), e.n(24, 4)
	if _, err := command(ctx, e.python, filepath.Join(scripts, "examples", "autotune.py"), dataset,
		"--disk", disk, "--epochs", fmt.Sprint(epochs), "--json", file); err != nil {
		return nil, fmt.Errorf("PyTorch (Debian: python3-torchvision): %w", err)
	}
	var runs []tuned
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &runs)
	}
	if err != nil {
		return nil, err
	}
	r, err := tuningResult(runs)
	if err != nil {
		return nil, err
	}
	if busy > float64(runtime.NumCPU()) {
		r.note("Other programs ran on this machine when this began (a load of %.0f on %d cores): compare bytes, not seconds.", busy, runtime.NumCPU())
	}
	r.Setup = fmt.Sprintf("%s; one of five for the test; shrunk to 128 pixels, of which 112 are cut out, flipped at random; %d epochs, batches of 16, PyTorch on the processor with 2 workers; read through a mount of a packed store at %s, nothing kept in memory; `python/examples/autotune.py`", text, epochs, disk)
	return r, nil
}

// load is how many processes have wanted a processor in the last minute.
func load() (mean float64) {
	b, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(b), &mean)
	}
	if err != nil {
		return 0
	}
	return mean
}

// tuningResult is what three trainings show: at all scans, at five, tuned.
func tuningResult(runs []tuned) (*result, error) {
	if len(runs) != 3 || len(runs[2].Measurements) == 0 || slices.ContainsFunc(runs, func(t tuned) bool { return len(t.Epochs) == 0 }) {
		return nil, errors.New("examples/autotune.py told of no training")
	}
	t := table{Head: []string{"", "MB read", "of these, to compare gradients", "seconds", "loss of the last epoch", "right in the test", "views, epoch by epoch"}}
	t.add("ImageNet, ResNet-18, 90 epochs, autotuned (paper)", "–", "–", "nearly those of scan 5", "–", "as with scan 10", "scan 10 for 5 epochs, then scan 5")
	loss := figure{File: "pcr-figure14", Title: "Loss over bytes read", X: "MB read", Y: "loss of an epoch"}
	for _, run := range runs {
		l, views, measured := line{Name: run.Name}, "", 0.0
		for i, epoch := range run.Epochs {
			l.X, l.Y = append(l.X, epoch.Bytes/1e6), append(l.Y, epoch.Loss)
			switch {
			case i == 0:
				views = epoch.View
			case epoch.View != run.Epochs[i-1].View:
				views += fmt.Sprintf(", %s from %d", epoch.View, epoch.Epoch)
			}
		}
		for _, m := range run.Measurements {
			measured += m.Bytes
		}
		last := run.last()
		t.add("**ours**, "+run.Name, fmt.Sprintf("%.0f", last.Bytes/1e6), fmt.Sprintf("%.0f", measured/1e6), fmt.Sprintf("%.0f", last.Seconds),
			fmt.Sprintf("%.3f", last.Loss), fmt.Sprintf("%.0f %% of %d", 100*run.Accuracy, run.Test), views)
		loss.Lines = append(loss.Lines, l)
	}
	cosines := table{Head: []string{"cosine to the gradient of all scans"}}
	alike := figure{File: "pcr-figure14-cosine", Title: "Similarity of gradients, by which the fidelity is set", X: "epoch", Y: "cosine"}
	rows := make([][]string, len(paperScans)+1)
	for i, k := range paperScans {
		rows[i] = []string{fmt.Sprintf("**ours**, scan %d", k)}
		alike.Lines = append(alike.Lines, line{Name: fmt.Sprintf("scan %d", k)})
	}
	rows[len(paperScans)] = []string{"**ours**, what was read from then on"}
	for _, m := range runs[2].Measurements {
		if m.Problem != "" {
			return nil, errors.New(m.Problem)
		}
		cosines.Head = append(cosines.Head, fmt.Sprintf("after epoch %.0f", m.Epoch))
		for i, k := range paperScans {
			v := m.Similarity[fmt.Sprint(k)]
			rows[i] = append(rows[i], fmt.Sprintf("%.2f", v))
			l := &alike.Lines[i]
			l.X, l.Y = append(l.X, m.Epoch), append(l.Y, v)
		}
		rows[len(paperScans)] = append(rows[len(paperScans)], fmt.Sprintf("scan %d", m.Scans))
	}
	cosines.Rows = rows
	full, five, tuned := runs[0].last(), runs[1].last(), runs[2].last()
	r := &result{Tables: []table{t, cosines}, Figures: []figure{loss, alike}}
	r.Ours = fmt.Sprintf("tuned it reads %.0f MB instead of the %.0f of all scans, %.1f times less, and ends with a loss of %.3f instead of %.3f; scan 5 reads %.0f MB and ends with %.3f.",
		tuned.Bytes/1e6, full.Bytes/1e6, full.Bytes/tuned.Bytes, tuned.Loss, full.Loss, five.Bytes/1e6, five.Loss)
	r.note("The paper's ResNet-18 has a cosine of 0.95 after epoch 5, and of 0.88 after epoch 85.")
	return r, nil
}
