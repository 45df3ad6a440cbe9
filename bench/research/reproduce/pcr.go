package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/research/turbo"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

// The fidelities for which the paper has figures.
var paperScans = []int{1, 2, 5, 10}

func pcrItems() []*item {
	return []*item{
		{
			paper: "pcr", parts: []string{"Figure 1"}, title: "speed of three generations of TPUs",
			reason: "accelerators",
		},
		{
			paper: "pcr", parts: []string{"Figure 2", "Figure 3", "Figure 4"}, title: "file formats, progressive JPEG and the record, drawn",
			reason: "drawings",
		},
		{
			paper: "pcr", parts: []string{"Table 1"}, title: "bytes of each fidelity",
			says:    "Scan 5 takes about half of the bytes, scan 1 a sixteenth (ImageNet).",
			differs: "other pictures",
			name:    "pcr-table1", seconds: 25, run: pcrSizes,
		},
		{
			paper: "pcr", parts: []string{"Table 2"}, title: "decoding rate of each fidelity on one core",
			says:    "All scans take more than twice as long as the baseline file, scan 5 0.8 to 1.5 times.",
			differs: "another processor and other pictures; CPU time of one thread",
			name:    "pcr-table2", seconds: 25, run: pcrDecoding,
		},
		{
			paper: "pcr", parts: []string{"Table 3"}, title: "data sets and record counts",
			reason: "data sets that are not here",
		},
		{
			paper: "pcr", parts: []string{"Figure 5"}, title: "loading rate over bandwidth, predicted and measured",
			says:    "min(W / E[s], limit): bandwidth over mean bytes, up to a limit.",
			differs: "one disk, slowed down by a cgroup, instead of ten nodes on Ceph; first reads of a store, in packed order",
			name:    "pcr-figure5", seconds: 180, run: slowDisk(pcrLoading),
		},
		{
			paper: "pcr", parts: []string{"Figure 6"}, title: "similarity of gradients",
			says:    "0.8 separates the good scans from the bad.",
			differs: differsTraining + "; 10 batches of 32 instead of 2,560 pictures, no augmentation",
			name:    "pcr-figure6", seconds: 40, run: pcrGradient,
		},
		{
			paper: "pcr", parts: []string{"Figure 7", "Figure 9", "Figure 10", "Figure 11"}, title: "accuracy over time on ImageNet, CelebAHQ, HAM10000 and Cars",
			reason: "trainings of GPU days",
		},
		{
			paper: "pcr", parts: []string{"Figure 8"}, title: "bytes of each scan group",
			says:    "Bytes grow about linearly with the scans; 2 to 4 are close together.",
			differs: "other pictures; the paper's row is from the legend of its Figure 6",
			name:    "pcr-figure8", seconds: 5, run: pcrGroups,
		},
		{
			paper: "pcr", parts: []string{"Figure 12", "Figure 13"}, title: "accuracy against MS-SSIM",
			says:    "Accuracy follows MS-SSIM; scan 5 and above have 95 % and more and lose nothing.",
			differs: differsTraining,
			name:    "pcr-figure12", seconds: 200, run: pcrAccuracy,
		},
		{
			paper: "pcr", parts: []string{"Figure 14"}, title: "tuning the fidelity during a training on ImageNet",
			says:    "The accuracy of all scans in nearly the time of scan 5.",
			differs: "320 photographs and a small network instead of 90 epochs of ImageNet, so comparing gradients is a large part of what is read; all scans in the first 2 epochs, then a comparison every 4, instead of 5 and 20",
			name:    "pcr-figure14", seconds: 180, run: pcrTuning,
		},
		{
			paper: "pcr", parts: []string{"Figure 15"}, title: "training rate of each fidelity",
			says:    "If the disk is the bottleneck, scan 5 is about twice as fast as all scans, scans 1 and 2 three times.",
			differs: "a small network on the processor, which also decodes; disk slowed down by a cgroup",
			name:    "pcr-figure15", seconds: 120, run: slowDisk(pcrTraining),
		},
		{
			paper: "pcr", parts: []string{"Figure 16"}, title: "time of an epoch at several bandwidths",
			says:    "At 20 MiB/s every scan gains, at 500 MiB/s hardly any.",
			differs: "projected from Table 1 and Figure 15, as in the paper, which has 90 epochs on ten nodes",
			name:    "pcr-figure16", seconds: 1, run: pcrProjection,
		},
		{
			paper: "pcr", parts: []string{"Section 5"}, title: "time of encoding against conversion to TFRecord",
			says:    "1.4 hours for PCR, 0.8 hours for TFRecord: 1.75 times.",
			differs: "our own writer of TFRecords; both use all cores",
			name:    "pcr-encode", seconds: 30, run: pcrEncode,
		},
	}
}

const differsTraining = "generated pictures, whose classes differ in coarse, middle and fine structure, and a small network instead of photographs and ResNet"

// fidelities are photographs, and the files that each fidelity of them is.
type fidelities struct {
	original [][]byte
	cut      [11][][]byte // by fidelity
}

// fidelities cuts photographs.
func (e *env) fidelities(ctx context.Context, n int) (*fidelities, error) {
	names, err := e.photographs(ctx, n)
	if err != nil {
		return nil, err
	}
	f := &fidelities{original: make([][]byte, len(names))}
	for k := range f.cut {
		f.cut[k] = make([][]byte, len(names))
	}
	return f, loader.Each(ctx, 0, len(names), func(_ context.Context, _, i int) (err error) {
		if f.original[i], err = os.ReadFile(names[i]); err != nil {
			return err
		}
		s, err := jpeg.Transcode(f.original[i], jpeg.Options{})
		if err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		for k := 1; k <= 10; k++ {
			f.cut[k][i] = append(bytes.Clone(s.Data[:s.Ends[s.Levels[k-1]-1]]), jpeg.EOI[:]...)
		}
		return nil
	})
}

func sizes(files [][]byte) (v []float64) {
	for _, f := range files {
		v = append(v, float64(len(f)))
	}
	return v
}

func times(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.1f×", v)
	}
	return fmt.Sprintf("%.0f×", v)
}

// pcrSizes is Table 1.
func pcrSizes(ctx context.Context, e *env) (*result, error) {
	f, err := e.fidelities(ctx, e.n(200, 8))
	if err != nil {
		return nil, err
	}
	original := mean(sizes(f.original))
	t := table{Head: []string{"smaller than the original", "scan 1", "scan 2", "scan 5", "scan 10", "mean original"}}
	t.add("ImageNet (paper)", "16×", "7×", "2×", "1×", "110 kB")
	t.add("HAM10000 (paper)", "30×", "15×", "3×", "1×", "250 kB")
	t.add("Cars (paper)", "14×", "6×", "2×", "1×", "110 kB")
	t.add("CelebAHQ (paper)", "7×", "4×", "3×", "1×", "80 kB")
	row := []string{"**ours**"}
	r := &result{Setup: e.photoSet(len(f.original))}
	for _, k := range paperScans {
		m := mean(sizes(f.cut[k]))
		r.value(fmt.Sprint("scan", k), m)
		row = append(row, times(original/m))
	}
	r.value("original", original)
	t.add(append(row, fmt.Sprintf("%.0f kB", original/1e3))...)
	r.Tables = []table{t}
	r.Ours = fmt.Sprintf("scan 1 is %s smaller, scan 2 %s, scan 5 %s, scan 10 %s.", row[1], row[2], row[3], row[4])
	return r, nil
}

// pcrGroups is Figure 8.
func pcrGroups(ctx context.Context, e *env) (*result, error) {
	f, err := e.fidelities(ctx, e.n(200, 8))
	if err != nil {
		return nil, err
	}
	t := table{Head: []string{"", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}}
	t.add("HAM10000, all scans over these (paper)", "30.8×", "15.2×", "5.8×", "3.5×", "2.8×", "2.0×", "2.0×", "1.5×", "1.2×", "1.0×")
	ratio, kb, spread := []string{"**ours**, all scans over these"}, []string{"**ours**, kB in the mean"}, []string{"**ours**, half of them lie within, kB"}
	all := mean(sizes(f.cut[10]))
	for k := 1; k <= 10; k++ {
		s := sizes(f.cut[k])
		ratio = append(ratio, times(all/mean(s)))
		kb = append(kb, fmt.Sprintf("%.1f", mean(s)/1e3))
		spread = append(spread, fmt.Sprintf("%.1f – %.1f", quantile(s, 0.25)/1e3, quantile(s, 0.75)/1e3))
	}
	t.add(ratio...)
	t.add(kb...)
	t.add(spread...)
	return &result{
		Setup: e.photoSet(len(f.original)), Tables: []table{t},
		Ours: fmt.Sprintf("from %s kB with one scan to %s kB with ten; scans 6 to 10 are %.0f %% of all bytes.", kb[1], kb[10], 100*(1-mean(sizes(f.cut[5]))/all)),
	}, nil
}

// pcrDecoding is Table 2.
func pcrDecoding(ctx context.Context, e *env) (*result, error) {
	f, err := e.fidelities(ctx, e.n(60, 4))
	if err != nil {
		return nil, err
	}
	if err := turbo.Available(); err != nil {
		return nil, fmt.Errorf("libjpeg-turbo (Debian: libturbojpeg0) is missing: %w", err)
	}
	type way struct {
		decoder, what string
		files         [][]byte
		rates         []float64
	}
	var ways []*way
	for _, decoder := range []string{"libjpeg-turbo", "pipefs"} {
		for _, k := range paperScans {
			ways = append(ways, &way{decoder: decoder, what: fmt.Sprint("scan", k), files: f.cut[k]})
		}
		ways = append(ways, &way{decoder: decoder, what: "original", files: f.original})
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	order := rand.New(rand.NewPCG(2, 2))
	for range e.n(5, 2) {
		took := make([]float64, len(ways))
		// All ways take turns at each file.
		for i := range f.original {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			runtime.GC()
			for _, w := range order.Perm(len(ways)) {
				src := ways[w].files[i]
				h, err := jpeg.ParseHeader(src, jpeg.Limits{})
				if err != nil {
					return nil, err
				}
				before := threadCPU()
				if ways[w].decoder == "pipefs" {
					_, err = jpeg.DecodePixels(src, 1, jpeg.Limits{})
				} else {
					_, err = turbo.Decode(src, h.Width, h.Height, 3)
				}
				if err != nil {
					return nil, err
				}
				took[w] += threadCPU() - before
			}
		}
		for w := range ways {
			ways[w].rates = append(ways[w].rates, float64(len(f.original))/took[w])
		}
	}
	t := table{Head: []string{"images/s", "scan 1", "scan 2", "scan 5", "scan 10", "baseline", "baseline over scan 10"}}
	t.add("ImageNet (paper)", "433", "412", "340", "146", "419", "2.9×")
	t.add("HAM10000 (paper)", "465", "438", "275", "96", "240", "2.5×")
	t.add("Cars (paper)", "266", "240", "225", "127", "268", "2.1×")
	t.add("CelebAHQ (paper)", "239", "213", "195", "129", "286", "2.2×")
	r := &result{Setup: e.photoSet(len(f.original))}
	for d, decoder := range []string{"libjpeg-turbo", "pipefs"} {
		row := []string{"**ours**, " + decoder}
		mine := ways[5*d : 5*d+5]
		for _, w := range mine {
			rate := views.Median(w.rates)
			r.value(decoder+" "+w.what, rate)
			row = append(row, fmt.Sprintf("%.0f", rate))
		}
		slower := views.Paired(mine[4].rates, mine[3].rates)
		t.add(append(row, times(slower.Median))...)
		if d == 0 {
			scan5 := views.Paired(mine[4].rates, mine[2].rates)
			r.Ours = fmt.Sprintf("with libjpeg-turbo all scans take %.1f times as long as the original, scan 5 %.1f times", slower.Median, scan5.Median)
		} else {
			r.Ours += fmt.Sprintf("; with pipefs' decoder all scans take %.1f times.", slower.Median)
		}
	}
	r.Tables = []table{t}
	return r, nil
}

// packed makes a store of photographs, K samples to a record. The dataset is made by
// the first call for a directory.
func (e *env) packed(ctx context.Context, n, times, k int, dir string) (store string, err error) {
	names, err := e.photographs(ctx, n)
	if err != nil {
		return "", err
	}
	dataset, store := filepath.Join(e.used, dir), filepath.Join(e.used, fmt.Sprintf("%s.store%d", dir, k))
	if _, err := os.Stat(dataset); err != nil {
		if err := copies(filepath.Join(dataset, "all"), names, times); err != nil {
			return "", err
		}
	}
	e.say("packing %d files, %d to a record", len(names)*times, k)
	return store, e.pipefs(ctx, "pack", "--record-images", fmt.Sprint(k), "--order", "shuffle", "--seed", "1", dataset, store)
}

// passOf reads as many files of a view, cold, in the order in which it lists them.
func (e *env) passOf(ctx context.Context, store, view string, files int, decoding bool) (r loader.Result, disk float64, err error) {
	err = e.mount(ctx, store, nil, func(m *views.Mount) error {
		names, err := listed(filepath.Join(m.Dir, view, "all"))
		if err != nil {
			return err
		}
		if err := loader.Forget(store); err != nil {
			return err
		}
		p := loader.Pass{}
		if decoding {
			p.Decode = decode()
		}
		daemon, err := m.Spent(func() (err error) { r, err = p.Run(ctx, names[:min(files, len(names))]); return err })
		disk = float64(daemon.Read)
		return err
	})
	return r, disk, err
}

// pcrLoading is Figure 5.
func pcrLoading(ctx context.Context, e *env) (*result, error) {
	n, times := e.n(160, 40), e.n(14, 12)
	r := &result{Setup: fmt.Sprintf("%s, each under %d names, in packed order, nothing in the page cache", e.photoSet(n), times)}
	bandwidths := []float64{10, 20, 50, 100}
	t := table{Head: []string{"scans", "records of", "read by", "E[s], kB", "from the disk, kB", "limit"}}
	for _, w := range bandwidths {
		t.Head = append(t.Head, fmt.Sprintf("%.0f MB/s", w))
	}
	fig := figure{File: "pcr-figure5", Title: "Reading in records of 1,024, first reads", X: "MB/s", Y: "images/s"}
	lowest, cells, short := 10.0, 0, 0
	worst := ""
	for _, way := range []struct {
		records  int
		decoding bool
	}{{1, false}, {1, true}, {1024, false}, {1024, true}} {
		store := filepath.Join(e.used, fmt.Sprintf("figure5.store%d", way.records))
		if _, err := os.Stat(store); err != nil {
			if _, err := e.packed(ctx, n, times, way.records, "figure5"); err != nil {
				return nil, err
			}
		}
		by := "reading"
		if way.decoding {
			by = "reading and decoding"
		}
		for _, k := range paperScans {
			c, err := e.loading(ctx, store, fmt.Sprint("scan", k), way.decoding, bandwidths)
			if err != nil {
				return nil, err
			}
			row := []string{fmt.Sprint(k), fmt.Sprint(way.records), by, fmt.Sprintf("%.1f", c.size/1e3), fmt.Sprintf("%.1f", c.disk/1e3), fmt.Sprintf("%.0f/s", views.Median(c.limits))}
			points := line{Name: fmt.Sprintf("scan %d", k)}
			for i, w := range bandwidths {
				rate, ratio := views.Median(c.rates[i]), views.Median(c.ratios[i])
				row = append(row, fmt.Sprintf("%.0f/s, %.2f", rate, ratio))
				points.X, points.Y = append(points.X, w), append(points.Y, rate)
				r.value(fmt.Sprintf("%s of %d, scan %d, %.0f MB/s", by, way.records, k, w), ratio)
				cells++
				if ratio < 0.95 {
					short++
				}
				if ratio < lowest {
					lowest, worst = ratio, fmt.Sprintf("scan %d, records of %d, %s, %.0f MB/s", k, way.records, by, w)
				}
			}
			t.add(row...)
			if way.records > 1 && !way.decoding {
				fig.Lines = append(fig.Lines, points)
			}
		}
	}
	r.Tables, r.Figures = []table{t}, []figure{fig}
	r.Ours = fmt.Sprintf("%d of %d cells reach 0.95 of the model; the lowest has %.2f (%s).", cells-short, cells, lowest, worst)
	r.note("After the comma: the rate over that of the model, min(W / E[s], limit). The limit is the rate without a slow disk in the same round.")
	r.note("Records of one sample read whole pages of 4 kB, which a first scan does not fill.")
	return r, nil
}

// loaded is what Figure 5 has of one fidelity.
type loaded struct {
	size, disk float64 // bytes of a file, and those that a disk gave for it
	limits     []float64
	// One list for each bandwidth: images/s, and that over the model.
	rates, ratios [][]float64
}

// loading measures one fidelity at several speeds of the disk.
func (e *env) loading(ctx context.Context, store, view string, decoding bool, bandwidths []float64) (*loaded, error) {
	c := &loaded{rates: make([][]float64, len(bandwidths)), ratios: make([][]float64, len(bandwidths))}
	seconds := max(0.3, min(2, 2*e.scale))
	most := math.MaxInt
	if decoding {
		most = 1024
	}
	var disk, read float64
	for range e.n(2, 1) {
		if err := e.limit(0); err != nil {
			return nil, err
		}
		free, _, err := e.passOf(ctx, store, view, most, decoding)
		if err != nil {
			return nil, err
		}
		c.limits = append(c.limits, free.Rate())
		c.size = float64(free.Bytes) / float64(free.Files)
		for i, w := range bandwidths {
			if err := e.limit(int64(w * 1e6)); err != nil {
				return nil, err
			}
			predicted := min(w*1e6/c.size, free.Rate())
			got, given, err := e.passOf(ctx, store, view, max(64, int(predicted*seconds)), decoding)
			if err != nil {
				return nil, err
			}
			// The files of this pass may be smaller or larger than the mean of all.
			predicted = min(w*1e6*float64(got.Files)/float64(got.Bytes), free.Rate())
			disk, read = disk+given, read+float64(got.Files)
			c.rates[i], c.ratios[i] = append(c.rates[i], got.Rate()), append(c.ratios[i], got.Rate()/predicted)
		}
	}
	c.disk = disk / read
	e.say("%s: %.0f images/s at %.0f MB/s, %.2f of the model", view, views.Median(c.rates[0]), bandwidths[0], views.Median(c.ratios[0]))
	return c, e.limit(0)
}

// pcrEncode is the last paragraph on encoding in Section 5.
func pcrEncode(ctx context.Context, e *env) (*result, error) {
	n, times := e.n(160, 8), e.n(6, 1)
	names, err := e.photographs(ctx, n)
	if err != nil {
		return nil, err
	}
	dataset := filepath.Join(e.used, "dataset")
	if err := copies(filepath.Join(dataset, "all"), names, times); err != nil {
		return nil, err
	}
	files, err := listed(filepath.Join(dataset, "all"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var pack, records, quick []float64
	for i := range e.n(5, 2) {
		store, out := filepath.Join(e.used, fmt.Sprint("store", i)), filepath.Join(e.used, fmt.Sprint("records", i))
		from := time.Now()
		if err := e.pipefs(ctx, "pack", "--record-images", "128", dataset, store); err != nil {
			return nil, err
		}
		pack = append(pack, time.Since(from).Seconds())
		from = time.Now()
		if err := writeTFRecords(ctx, out, files, 128); err != nil {
			return nil, err
		}
		records = append(records, time.Since(from).Seconds())
		from = time.Now()
		if err := e.pipefs(ctx, "pack", "--record-images", "128", "--originals", "drop", dataset, store+"d"); err != nil {
			return nil, err
		}
		quick = append(quick, time.Since(from).Seconds())
		for _, dir := range []string{store, store + "d", out} {
			if err := os.RemoveAll(dir); err != nil {
				return nil, err
			}
		}
	}
	slower, dropped := views.Paired(pack, records), views.Paired(quick, records)
	t := table{Head: []string{"", "PCR", "TFRecord", "ratio"}}
	t.add("ImageNet (paper)", "1.4 h", "0.8 h", "1.75×")
	rate := func(v []float64) string { return fmt.Sprintf("%.0f files/s", float64(len(files))/views.Median(v)) }
	t.add("**ours**, `pipefs pack`", rate(pack), rate(records), fmt.Sprintf("%.1f× (%.1f – %.1f)", slower.Median, slower.Low, slower.High))
	t.add("**ours**, `pack --originals drop`", rate(quick), rate(records), fmt.Sprintf("%.1f× (%.1f – %.1f)", dropped.Median, dropped.Low, dropped.High))
	r := &result{Setup: fmt.Sprintf("%s, each under %d names", e.photoSet(n), times), Tables: []table{t}}
	r.Ours = fmt.Sprintf("`pipefs pack` takes %.1f times as long as framing the same files as TFRecords.", slower.Median)
	r.note("The paper's 1.4 and 0.8 hours are 254 and 445 files/s.")
	return r, nil
}
