package main

import (
	"context"
	_ "embed" // for train.py
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/bench/research/labelled"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

//go:embed train.py
var trainPy string

// train runs train.py and reads what it prints.
func (e *env) train(ctx context.Context, answer any, args ...string) error {
	if _, err := e.withPython(); err != nil {
		return err
	}
	script, err := e.script("train.py", trainPy)
	if err != nil {
		return err
	}
	out, err := command(ctx, e.python, append([]string{script}, args...)...)
	if err != nil {
		return fmt.Errorf("PyTorch (Debian: python3-torchvision): %w", err)
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fmt.Errorf("train.py: %w: %s", err, tail(string(out)))
	}
	return nil
}

// labelled makes the labelled set and a store of it.
func (e *env) labelled(ctx context.Context, train, test int) (dataset, store string, err error) {
	dataset, store = filepath.Join(e.used, "labelled"), filepath.Join(e.used, "labelled.store")
	e.say("making %d pictures of %d classes", labelled.Classes*(train+test), labelled.Classes)
	if err := labelled.Write(ctx, dataset, train, test); err != nil {
		return "", "", err
	}
	return dataset, store, e.pipefs(ctx, "pack", dataset, store)
}

func labelledText(train, test, epochs int) string {
	return fmt.Sprintf("%d generated pictures of %d×%d pixels for training and %d others for the test, %d classes, JPEG of quality %d; random crops of 128, %d epochs, PyTorch on the processor; read through a mount of a packed store",
		labelled.Classes*train, labelled.Size, labelled.Size, labelled.Classes*test, labelled.Classes, labelled.Quality, epochs)
}

// pcrGradient is Figure 6.
func pcrGradient(ctx context.Context, e *env) (*result, error) {
	train, epochs := e.n(60, 6), e.n(12, 2)
	_, store, err := e.labelled(ctx, train, 1)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Rows []struct {
			Epoch      int                `json:"epoch"`
			Similarity map[string]float64 `json:"similarity"`
		} `json:"rows"`
	}
	err = e.mount(ctx, store, nil, func(m *views.Mount) error {
		return e.train(ctx, &answer, "gradient", "--mount", m.Dir, "--epochs", fmt.Sprint(epochs))
	})
	if err != nil {
		return nil, err
	}
	t := table{Head: []string{"cosine to the gradient of full pictures", "scan 1", "scan 2", "scan 5", "scan 10"}}
	t.add("above 0.8 all the time, HAM10000 (paper)", "no", "no", "yes", "1, exactly")
	fig := figure{File: "pcr-figure6", Title: "Similarity of gradients to those of full pictures", X: "epoch", Y: "cosine"}
	least, last := []string{"**ours**, the least of all epochs"}, []string{"**ours**, after the last epoch"}
	above := 0
	for _, k := range paperScans {
		l := line{Name: fmt.Sprintf("scan %d", k)}
		for _, row := range answer.Rows {
			l.X, l.Y = append(l.X, float64(row.Epoch)), append(l.Y, row.Similarity[fmt.Sprint(k)])
		}
		if len(l.Y) == 0 {
			return nil, errors.New("train.py measured no gradient")
		}
		worst := slices.Min(l.Y)
		least, last = append(least, fmt.Sprintf("%.3f", worst)), append(last, fmt.Sprintf("%.3f", l.Y[len(l.Y)-1]))
		if worst > 0.8 && above == 0 {
			above = k
		}
		fig.Lines = append(fig.Lines, l)
	}
	t.add(least...)
	t.add(last...)
	r := &result{Setup: labelledText(train, 1, epochs), Tables: []table{t}, Figures: []figure{fig}}
	r.Ours = fmt.Sprintf("the lowest of these scans that stays above 0.8 is %d.", above)
	if above == 0 {
		r.Ours = "none of these scans stays above 0.8."
	}
	return r, nil
}

// pcrAccuracy is Figures 12 and 13.
func pcrAccuracy(ctx context.Context, e *env) (*result, error) {
	train, test, epochs, seeds := e.n(60, 6), e.n(40, 5), e.n(12, 2), min(3, e.n(3, 2))
	dataset, store, err := e.labelled(ctx, train, test)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Rows []struct {
			Scan int     `json:"scan"`
			Full float64 `json:"full"`
			Own  float64 `json:"own"`
		} `json:"rows"`
	}
	err = e.mount(ctx, store, nil, func(m *views.Mount) error {
		return e.train(ctx, &answer, "accuracy", "--mount", m.Dir, "--seeds", fmt.Sprint(seeds), "--epochs", fmt.Sprint(epochs))
	})
	if err != nil {
		return nil, err
	}
	like, err := likeness(ctx, filepath.Join(dataset, "test"), e.n(64, 8))
	if err != nil {
		return nil, err
	}
	photos, err := e.photographs(ctx, e.n(24, 4))
	if err != nil {
		return nil, err
	}
	ofPhotos, err := likenessOf(ctx, photos[:min(len(photos), e.n(24, 4))])
	if err != nil {
		return nil, err
	}
	t := table{Head: []string{"", "scan 1", "scan 2", "scan 5", "scan 10"}}
	t.add("MS-SSIM (paper)", "–", "–", "at least 0.95", "1")
	t.add("ImageNet, ResNet-50, Section 7, top-1 (paper)", "–", "–", "75.14 %", "75.47 %")
	similar, ofPhotographs := []string{"**ours**, MS-SSIM of the labelled pictures"}, []string{"**ours**, MS-SSIM of photographs"}
	onFull, onOwn := []string{"**ours**, accuracy on full pictures"}, []string{"**ours**, accuracy on pictures of that scan"}
	fig := figure{File: "pcr-figure12", Title: "MS-SSIM and accuracy, scans 1, 2, 5, 10", X: "MS-SSIM", Y: "accuracy",
		Lines: []line{{Name: "tested on full pictures"}, {Name: "tested on pictures of that scan"}}}
	accuracies := map[int]float64{}
	for _, k := range paperScans {
		var full, own []float64
		for _, row := range answer.Rows {
			if row.Scan == k {
				full, own = append(full, row.Full), append(own, row.Own)
			}
		}
		if len(full) == 0 {
			return nil, fmt.Errorf("train.py told no accuracy of scan %d", k)
		}
		accuracies[k] = mean(full)
		similar = append(similar, fmt.Sprintf("%.3f", like[k]))
		ofPhotographs = append(ofPhotographs, fmt.Sprintf("%.3f", ofPhotos[k]))
		onFull, onOwn = append(onFull, spread(full)), append(onOwn, spread(own))
		for i, v := range []float64{mean(full), mean(own)} {
			l := &fig.Lines[i]
			l.X, l.Y = append(l.X, like[k]), append(l.Y, v)
		}
	}
	t.add(similar...)
	t.add(onFull...)
	t.add(onOwn...)
	t.add(ofPhotographs...)
	r := &result{Setup: fmt.Sprintf("%s; mean of %d seeds and, in brackets, their range", labelledText(train, test, epochs), seeds), Tables: []table{t}, Figures: []figure{fig}}
	r.Ours = fmt.Sprintf("accuracy %.2f, %.2f, %.2f and %.2f with scans 1, 2, 5 and 10, at an MS-SSIM of %.2f, %.2f, %.2f and %.2f.",
		accuracies[1], accuracies[2], accuracies[5], accuracies[10], like[1], like[2], like[5], like[10])
	r.note("A class that differs in what a scan does not hold cannot be learnt from that scan. Whether scan 5 is enough for another task does not follow.")
	r.note("Chance is %.3f.", 1.0/labelled.Classes)
	return r, nil
}

func spread(v []float64) string {
	return fmt.Sprintf("%.3f (%.3f – %.3f)", mean(v), slices.Min(v), slices.Max(v))
}

// likeness is the mean MS-SSIM of each fidelity of at most n pictures below dir.
func likeness(ctx context.Context, dir string, n int) (map[int]float64, error) {
	names, err := jpegFiles(dir)
	if err != nil {
		return nil, err
	}
	// Classes are directories: some of each.
	var some []string
	for i := range min(n, len(names)) {
		some = append(some, names[i*len(names)/min(n, len(names))])
	}
	return likenessOf(ctx, some)
}

func likenessOf(ctx context.Context, names []string) (map[int]float64, error) {
	all := make([][]float64, len(names))
	err := loader.Each(ctx, 0, len(names), func(_ context.Context, _, i int) error {
		src, err := os.ReadFile(names[i])
		if err != nil {
			return err
		}
		s, err := jpeg.Transcode(src, jpeg.Options{})
		if err != nil {
			return err
		}
		whole, err := pixelsOf(s.Data)
		if err != nil {
			return err
		}
		values := make([]float64, len(paperScans))
		for j, k := range paperScans {
			cut, err := pixelsOf(append(slices.Clone(s.Data[:s.Ends[s.Levels[k-1]-1]]), jpeg.EOI[:]...))
			if err != nil {
				return err
			}
			if values[j], err = mssim.Compare(whole, cut); err != nil {
				if errors.Is(err, mssim.ErrSmall) {
					return nil
				}
				return fmt.Errorf("%s: %w", names[i], err)
			}
		}
		all[i] = values
		return nil
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(v []float64) bool { return v == nil })
	if len(all) == 0 {
		return nil, fmt.Errorf("no picture has %d pixels at its shorter side, which MS-SSIM takes", mssim.Least)
	}
	means := map[int]float64{}
	for j, k := range paperScans {
		for _, v := range all {
			means[k] += v[j] / float64(len(all))
		}
	}
	return means, nil
}

func pixelsOf(file []byte) (*transcode.Pixels, error) {
	m, err := jpeg.DecodePixels(file, 1, jpeg.Limits{})
	if err != nil {
		return nil, err
	}
	return &transcode.Pixels{Width: m.Width, Height: m.Height, Mode: transcode.ModeRGB, Pix: m.Pix}, nil
}

// pcrTraining is Figure 15.
func pcrTraining(ctx context.Context, e *env) (*result, error) {
	n := e.n(160, 20)
	times := max(3, 240/n) // enough for some batches
	store, err := e.packed(ctx, n, times, 1, "figure15")
	if err != nil {
		return nil, err
	}
	var memory struct{ Rate float64 }
	if err := e.train(ctx, &memory, "rate", "--memory", fmt.Sprint(e.n(150, 5))); err != nil {
		return nil, err
	}
	const speed = 10e6
	view := func(k int) string {
		if k == 0 {
			return transcode.Original
		}
		return fmt.Sprint("scan", k)
	}
	// TFRecord's row is that of the files themselves.
	scans := append([]int{0}, paperScans...)
	rates := map[bool]map[int][]float64{false: {}, true: {}}
	for range e.n(3, 1) {
		for _, slow := range []bool{false, true} {
			for _, k := range scans {
				rate, err := e.trainingRate(ctx, store, view(k), n*times, slow, speed)
				if err != nil {
					return nil, err
				}
				rates[slow][k] = append(rates[slow][k], rate)
				e.say("%s, slow disk %v: %.0f images/s", view(k), slow, rate)
			}
		}
	}
	t := table{Head: []string{"images/s", "scan 1", "scan 2", "scan 5", "scan 10", "file", "scan 5 over file", "from RAM, model alone"}}
	t.add("ImageNet, ShuffleNetv2, one GPU, SSD of 74 MB/s, Section 7 (paper)", "1750", "1700", "1540", "680", "650", "2.4×", "–")
	t.add("ResNet-18, ShuffleNetv2 (paper)", "–", "–", "about 2×", "1×", "1×", "–", "4200, 7000")
	r := &result{Setup: fmt.Sprintf("%s, each under %d names; 2 workers, batches of 32", e.photoSet(n), times)}
	r.value("memory", memory.Rate)
	fig := figure{File: "pcr-figure15", Title: "Training rates", Y: "images/s", Names: []string{"scan 1", "scan 2", "scan 5", "scan 10", "file"}}
	for _, slow := range []bool{true, false} {
		name := "disk as it is"
		if slow {
			name = fmt.Sprintf("disk of %.0f MB/s", speed/1e6)
		}
		row, l := []string{"**ours**, " + name}, line{Name: name}
		for _, k := range append(slices.Clone(paperScans), 0) {
			rate := views.Median(rates[slow][k])
			row, l.Y = append(row, fmt.Sprintf("%.0f", rate)), append(l.Y, rate)
			if !slow {
				r.value(view(k), rate)
			}
		}
		gain := views.Paired(rates[slow][5], rates[slow][0])
		t.add(append(row, fmt.Sprintf("%.2f×", gain.Median), fmt.Sprintf("%.0f", memory.Rate))...)
		if slow {
			r.Ours = fmt.Sprintf("scan 5 trains %.1f times as fast as the files from a disk of %.0f MB/s", gain.Median, speed/1e6)
		} else {
			r.Ours += fmt.Sprintf(", and %.2f times where the disk is fast.", gain.Median)
		}
		fig.Lines = append(fig.Lines, l)
	}
	r.Tables, r.Figures = []table{t}, []figure{fig}
	return r, nil
}

// trainingRate is images/s of a training that finds nothing in the page cache.
func (e *env) trainingRate(ctx context.Context, store, view string, n int, slow bool, speed int64) (float64, error) {
	var answer struct{ Rate float64 }
	if err := e.limit(0); err != nil {
		return 0, err
	}
	err := e.mount(ctx, store, nil, func(m *views.Mount) error {
		names, err := listed(filepath.Join(m.Dir, view, "all"))
		if err != nil {
			return err
		}
		if len(names) > 32 {
			names = names[:min(len(names), n)/32*32]
		}
		list := filepath.Join(e.used, "files")
		if err := os.WriteFile(list, []byte(strings.Join(names, "\n")), 0o644); err != nil {
			return err
		}
		if err := loader.Forget(store); err != nil {
			return err
		}
		if slow {
			if err := e.limit(speed); err != nil {
				return err
			}
		}
		return errors.Join(e.train(ctx, &answer, "rate", "--files", list), e.limit(0))
	})
	return answer.Rate, err
}

// pcrProjection is Figure 16.
func pcrProjection(_ context.Context, e *env) (*result, error) {
	sizes, rates := e.kept.Results["pcr-table1"], e.kept.Results["pcr-figure15"]
	if sizes == nil || sizes.Error != "" || rates == nil || rates.Error != "" {
		return nil, errors.New("it is made from pcr-table1 and pcr-figure15: run these first")
	}
	const images = 1281167
	t := table{Head: []string{"minutes of an epoch", "scan 1", "scan 2", "scan 5", "scan 10", "scan 10 over scan 5"}}
	t.add("heavily loaded cluster, scans 1 and 2 and 10 (paper)", "1.7", "1.7", "–", "5", "–")
	r := &result{Setup: fmt.Sprintf("%d pictures of the mean sizes of Table 1 (%s)", images, sizes.Setup)}
	var low, high float64
	for _, w := range []float64{5, 10, 20, 50, 100, 200, 500} {
		row := []string{fmt.Sprintf("**ours**, %.0f MB/s", w)}
		var minutes []float64
		for i, k := range paperScans {
			view := fmt.Sprint("scan", k)
			rate := min(w*1e6/sizes.Values[view], rates.Values[view])
			if math.IsNaN(rate) || rate <= 0 {
				return nil, fmt.Errorf("the results have no rate of %s", view)
			}
			minutes = append(minutes, images/rate/60)
			row = append(row, fmt.Sprintf("%.0f", minutes[i]))
		}
		gain := minutes[3] / minutes[2]
		if low == 0 {
			low = gain
		}
		high = gain
		t.add(append(row, fmt.Sprintf("%.2f×", gain))...)
	}
	r.Tables = []table{t}
	r.Ours = fmt.Sprintf("scan 5 saves %.1f times at 5 MB/s, and %.1f times at 500 MB/s, where this machine's processor is the limit.", low, high)
	return r, nil
}
