package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/l3"
)

func l3Items() []*item {
	return []*item{
		{
			paper: "l3", parts: []string{"Figure 1", "Figure 3", "Figure 4", "Figure 5", "Figure 6"}, title: "the pipeline and the format, drawn",
			reason: "drawings",
		},
		{
			paper: "l3", parts: []string{"Figure 2"}, title: "loading and decoding against computing",
			reason: "three models on an A100",
		},
		{
			paper: "l3", parts: []string{"Table 1"}, title: "accuracy with lossless and lossy formats",
			says:    "Six of seven models lose by JPEG and lossy WebP of quality 75; PNG loses nothing.",
			differs: "no models are trained: equal pixels train to equal accuracy",
			name:    "l3-table1", seconds: 10, run: withPillow(l3Lossless),
		},
		{
			paper: "l3", parts: []string{"Table 2", "Table 3"}, title: "models, data sets, and quality factors of equal accuracy",
			reason: "the paper's trainings",
		},
		{
			paper: "l3", parts: []string{"Table 4"}, title: "size over raw size",
			says:    "L3 is 6 to 9 % of the pixels larger than PNG, and 9 to 30 % larger than lossless WebP.",
			differs: "generated photographs; `make bench-l3` has real ones and more codecs",
			name:    "l3-table4", seconds: 30, run: withPillow(l3Sizes),
		},
		{
			paper: "l3", parts: []string{"Figure 7"}, title: "(a) loading and decoding, lossless formats",
			says:    "L3 prepares data 5.67, 9.29 and 15.71 times as fast as PNG at HD, FHD and UHD.",
			differs: "one thread decodes all formats, instead of an A100 for L3 and 96 cores for the others; HD is 1280×720, there 1080×720",
			name:    "l3-figure7", seconds: 90, run: withPillow(l3Preparation),
		},
		{
			paper: "l3", parts: []string{"Figure 8"}, title: "quality factor against data preparation, lossy formats",
			says:    "WebP is slower than L3 at every quality; JPEG, by the A100's engine, is faster below some quality.",
			differs: "one thread decodes all of them; no JPEG engine",
			name:    "l3-figure8", seconds: 60, run: withPillow(l3Quality),
		},
		{
			paper: "l3", parts: []string{"Figure 9", "Figure 10"}, title: "training with lossy formats, and steps of the GPU decoder",
			reason: "decoding on a GPU",
		},
	}
}

// pngWork are pictures as files, of one size.
type pngWork struct {
	name          string
	width, height int
	n             int
}

func (e *env) resolutions() []pngWork {
	return []pngWork{{"HD", 1280, 720, e.n(8, 2)}, {"FHD", 1920, 1080, e.n(4, 1)}, {"UHD", 3840, 2160, e.n(2, 1)}}
}

// lossless is a way to encode so that decoding gives the same pixels.
type lossless struct {
	name string
	l3   *l3.Options // otherwise Pillow encodes
	// for Pillow
	format  string
	options map[string]any
}

func losslessWays(patch int) []lossless {
	return []lossless{
		{name: "PNG", format: "PNG"},
		{name: "WebP", format: "WEBP", options: map[string]any{"lossless": true, "method": 3}},
		{name: "BMP", format: "BMP"},
		{name: "L3 v1", l3: &l3.Options{Mode: l3.V1, Patch: patch}},
		{name: "L3 v2 fast", l3: &l3.Options{Mode: l3.Fast}},
		{name: "L3 v2 dense", l3: &l3.Options{}},
	}
}

// write encodes a PNG file in this way.
func (w *lossless) write(ctx context.Context, p *pillow, src, dst string) (int64, error) {
	if w.l3 == nil {
		return p.encode(ctx, src, dst, w.format, w.options)
	}
	b, err := os.ReadFile(src)
	if err != nil {
		return 0, err
	}
	px, err := codecs.Default(transcode.Limits{}).Decode(ctx, b)
	if err != nil {
		return 0, err
	}
	if b, err = l3.Encode(px, *w.l3); err != nil {
		return 0, err
	}
	return int64(len(b)), os.WriteFile(dst, b, 0o644)
}

// l3Lossless is Table 1.
func l3Lossless(ctx context.Context, e *env, p *pillow) (*result, error) {
	n := e.n(12, 3)
	names, err := generate(ctx, filepath.Join(e.used, "png"), "png", 0, n, 768, 512)
	if err != nil {
		return nil, err
	}
	registry := codecs.Default(transcode.Limits{})
	ways := append(losslessWays(64), lossless{name: "JPEG of quality 75", format: "JPEG", options: map[string]any{"quality": 75}},
		lossless{name: "WebP of quality 75", format: "WEBP", options: map[string]any{"quality": 75}})
	t := table{Head: []string{"", "same pixels", "MS-SSIM", "accuracy over PNG's (paper)"}}
	theirs := map[string]string{"PNG": "1", "L3 v1": "1, by construction", "JPEG of quality 75": "0.944 to 1.000", "WebP of quality 75": "0.929 to 1.009"}
	same := 0
	for i := range ways {
		w := &ways[i]
		equal, likeness := 0, 0.0
		for _, src := range names {
			dst := filepath.Join(e.used, "encoded")
			if _, err := w.write(ctx, p, src, dst); err != nil {
				return nil, err
			}
			var px [2]*transcode.Pixels
			for j, name := range []string{src, dst} {
				b, err := os.ReadFile(name)
				if err != nil {
					return nil, err
				}
				if px[j], err = registry.Decode(ctx, b); err != nil {
					return nil, fmt.Errorf("%s as %s: %w", src, w.name, err)
				}
			}
			if bytes.Equal(px[0].Pix, px[1].Pix) {
				equal++
			}
			s, err := mssim.Compare(px[0], px[1])
			if err != nil {
				return nil, err
			}
			likeness += s / float64(n)
		}
		if w.l3 != nil {
			same += equal
		}
		t.add("**ours**, "+w.name, fmt.Sprintf("%d of %d", equal, n), fmt.Sprintf("%.4f", likeness), orDash(theirs[w.name]))
	}
	r := &result{Setup: fmt.Sprintf("%d generated pictures of 768×512 pixels; %s", n, p.About), Tables: []table{t}}
	r.Ours = fmt.Sprintf("%d of %d pictures come back from L3, in all its modes, with the same pixels.", same, 3*n)
	return r, nil
}

// l3Sizes is Table 4.
func l3Sizes(ctx context.Context, e *env, p *pillow) (*result, error) {
	const width, height = 1920, 1080
	photos, err := generate(ctx, filepath.Join(e.used, "photo"), "png", 0, e.n(3, 1), width, height)
	if err != nil {
		return nil, err
	}
	sets := map[string][]string{"photo": photos}
	draw := rand.New(rand.NewPCG(1, 2))
	for name, value := range map[string]func() uint8{"random": func() uint8 { return uint8(draw.Uint32()) }, "black": func() uint8 { return 0 }} {
		m := image.NewNRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				m.SetNRGBA(x, y, color.NRGBA{value(), value(), value(), 255})
			}
		}
		b, err := encode(m, "png", 0)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(e.used, name+".png")
		if err := os.WriteFile(file, b, 0o644); err != nil {
			return nil, err
		}
		sets[name] = []string{file}
	}
	t := table{Head: []string{"size over raw", "Cityscapes (paper)", "KITTI (paper)", "DIV2K (paper)", "FFHQ (paper)", "RAISE1K (paper)", "random (paper)", "black (paper)", "**photo**", "**random**", "**black**"}}
	theirs := map[string][]string{
		"PNG":       {"0.39", "0.62", "0.67", "0.25", "0.57", "1.01", "0.001"},
		"JPEG 2000": {"0.38", "0.57", "0.59", "0.28", "0.56", "1.09", "0.005"},
		"BMP":       {"1.00", "1.00", "1.00", "1.00", "1.00", "1.00", "1.00"},
		"WebP":      {"0.29", "0.55", "0.49", "0.15", "0.37", "1.00", "0.000002"},
		"L3 v1":     {"0.44", "0.64", "0.76", "0.33", "0.63", "1.02", "0.13"},
	}
	ways := append(losslessWays(128), lossless{name: "JPEG 2000", format: "JPEG2000"})
	of := map[string]float64{} // by way, of photographs
	for i := range ways {
		w := &ways[i]
		row := []string{w.name}
		if paper := theirs[w.name]; paper != nil {
			row = append(row, paper...)
		} else {
			row = append(row, "–", "–", "–", "–", "–", "–", "–")
		}
		for _, set := range []string{"photo", "random", "black"} {
			total := int64(0)
			for _, src := range sets[set] {
				size, err := w.write(ctx, p, src, filepath.Join(e.used, "encoded"))
				if err != nil {
					return nil, err
				}
				total += size
			}
			ratio := float64(total) / float64(len(sets[set])*width*height*3)
			if set == "photo" {
				of[w.name] = ratio
			}
			row = append(row, fmt.Sprintf("%.2g", ratio))
			if ratio > 0.0995 {
				row[len(row)-1] = fmt.Sprintf("%.2f", ratio)
			}
		}
		t.add(row...)
	}
	r := &result{Setup: fmt.Sprintf("%d generated photographs, one random and one black picture of %d×%d; %s", len(photos), width, height, p.About), Tables: []table{t}}
	r.Ours = fmt.Sprintf("of PNG's size are v1 %.2f, v2 fast %.2f and v2 dense %.2f times; of WebP's %.2f, %.2f and %.2f.",
		of["L3 v1"]/of["PNG"], of["L3 v2 fast"]/of["PNG"], of["L3 v2 dense"]/of["PNG"],
		of["L3 v1"]/of["WebP"], of["L3 v2 fast"]/of["WebP"], of["L3 v2 dense"]/of["WebP"])
	return r, nil
}

// timed is files of one format, and how their decoding went.
type timed struct {
	name  string
	files []string
	// decode reads and decodes all files; by Pillow where it is nil.
	decode func(ctx context.Context, files []string) error
	rates  []float64 // bytes of pixels a second
}

// encode writes the files of a format beside those that they are made from, unless they
// are there.
func (f *timed) encode(ctx context.Context, p *pillow, w lossless, src []string, ext string) error {
	for _, name := range src {
		dst := name + "-" + ext
		if _, err := os.Stat(dst); err != nil {
			if _, err := w.write(ctx, p, name, dst); err != nil {
				return err
			}
		}
		f.files = append(f.files, dst)
	}
	return nil
}

// race lets all formats take turns, in random order, each from the disk.
func race(ctx context.Context, p *pillow, dir string, formats []*timed, pixels float64, rounds int) error {
	order := rand.New(rand.NewPCG(3, 3))
	for range rounds {
		for _, i := range order.Perm(len(formats)) {
			f := formats[i]
			if err := loader.Forget(dir); err != nil {
				return err
			}
			runtime.GC()
			var seconds float64
			var err error
			if f.decode == nil {
				seconds, err = p.decode(ctx, f.files)
			} else {
				from := time.Now()
				err = f.decode(ctx, f.files)
				seconds = time.Since(from).Seconds()
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			f.rates = append(f.rates, pixels/seconds)
		}
	}
	return nil
}

// decodeAll reads and decodes files with pipefs' own decoders.
func decodeAll(ctx context.Context, files []string) error {
	registry := codecs.Default(transcode.Limits{})
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if _, err := registry.Decode(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// paperPatch is the side of a patch that the paper has for a resolution.
var paperPatch = map[string]int{"HD": 64, "FHD": 64, "UHD": 128}

// l3Preparation is Figure 7(a).
func l3Preparation(ctx context.Context, e *env, p *pillow) (*result, error) {
	t := table{Head: []string{"over PNG", "HD", "FHD", "UHD"}}
	t.add("L3 on an A100 (paper)", "5.67×", "9.29×", "15.71×")
	t.add("L3 over WebP (paper)", "2.41×", "3.25×", "4.51×")
	var names []string
	rows, rates := map[string][]string{}, map[string][]float64{}
	fig := figure{File: "l3-figure7", Title: "Loading and decoding on one core", Y: "MB/s of pixels"}
	var fastest []string
	for _, res := range e.resolutions() {
		e.say("making %d pictures of %s", res.n, res.name)
		dir := filepath.Join(e.used, res.name)
		src, err := generate(ctx, dir, "png", 0, res.n, res.width, res.height)
		if err != nil {
			return nil, err
		}
		var formats []*timed
		for _, w := range losslessWays(paperPatch[res.name]) {
			f := &timed{name: w.name}
			if w.l3 != nil {
				f.decode = decodeAll
			}
			if err := f.encode(ctx, p, w, src, w.name); err != nil {
				return nil, err
			}
			formats = append(formats, f)
		}
		formats = append(formats, &timed{name: "PNG, pipefs' decoder", files: formats[0].files, decode: decodeAll})
		if err := race(ctx, p, dir, formats, float64(res.n*res.width*res.height*3), e.n(5, 2)); err != nil {
			return nil, err
		}
		names = names[:0]
		fig.Names = append(fig.Names, res.name)
		for _, f := range formats {
			names = append(names, f.name)
			rows[f.name] = append(rows[f.name], fmt.Sprintf("%s, %.0f MB/s", times(views.Paired(f.rates, formats[0].rates).Median), views.Median(f.rates)/1e6))
			rates[f.name] = append(rates[f.name], views.Median(f.rates)/1e6)
		}
		fastest = append(fastest, times(views.Paired(formats[5].rates, formats[0].rates).Median))
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		t.add(append([]string{"**ours**, " + name}, rows[name]...)...)
		if name != "BMP" { // which needs no decoding, and would hide the others
			fig.Lines = append(fig.Lines, line{Name: name, Y: rates[name]})
		}
	}
	r := &result{Setup: "generated pictures, one thread; PNG, WebP and BMP by " + p.About, Tables: []table{t}, Figures: []figure{fig}}
	r.Ours = fmt.Sprintf("v2 dense is prepared %s, %s and %s as fast as PNG at HD, FHD and UHD, on one core.", fastest[0], fastest[1], fastest[2])
	return r, nil
}

// l3Quality is Figure 8.
func l3Quality(ctx context.Context, e *env, p *pillow) (*result, error) {
	qualities := []int{25, 50, 75, 90, 95, 100}
	t := table{Head: []string{"MB/s of pixels", "quality 25", "50", "75", "90", "95", "100"}}
	t.add("WebP, all resolutions (paper)", "below L3", "below L3", "below L3", "below L3", "below L3", "below L3")
	t.add("JPEG, by an engine (paper)", "above L3", "–", "–", "–", "–", "below L3")
	fig := figure{File: "l3-figure8", Title: "Quality and data preparation on one core, FHD", X: "quality", Y: "MB/s of pixels"}
	r := &result{}
	for _, res := range e.resolutions() {
		dir := filepath.Join(e.used, res.name)
		src, err := generate(ctx, dir, "png", 0, max(1, res.n/2), res.width, res.height)
		if err != nil {
			return nil, err
		}
		var formats []*timed
		add := func(name string, q int, decode func(context.Context, []string) error, w lossless) error {
			f := &timed{name: name, decode: decode}
			formats = append(formats, f)
			return f.encode(ctx, p, w, src, fmt.Sprintf("%s-%d", w.format, q))
		}
		kinds := []string{"JPEG, pipefs", "JPEG, Pillow", "WebP, Pillow"}
		for k, kind := range kinds {
			for _, q := range qualities {
				w, decode := lossless{format: "JPEG", options: map[string]any{"quality": q}}, decodeAll
				if k > 0 {
					decode = nil
				}
				if k == 2 {
					w.format = "WEBP"
				}
				if err := add(kind, q, decode, w); err != nil {
					return nil, err
				}
			}
		}
		for _, w := range losslessWays(paperPatch[res.name]) {
			if w.l3 != nil {
				w.format = w.name
				if err := add(w.name, 0, decodeAll, w); err != nil {
					return nil, err
				}
			}
		}
		if err := race(ctx, p, dir, formats, float64(len(src)*res.width*res.height*3), e.n(3, 2)); err != nil {
			return nil, err
		}
		least := views.Median(formats[len(formats)-1].rates) / 1e6 // dense, the slowest L3
		most := 0.0
		for k, kind := range kinds {
			row, l := []string{fmt.Sprintf("**ours**, %s, %s", res.name, kind)}, line{Name: kind}
			for i, q := range qualities {
				rate := views.Median(formats[k*len(qualities)+i].rates) / 1e6
				most = max(most, rate)
				row = append(row, fmt.Sprintf("%.0f", rate))
				l.X, l.Y = append(l.X, float64(q)), append(l.Y, rate)
			}
			t.add(row...)
			if res.name == "FHD" {
				fig.Lines = append(fig.Lines, l)
			}
		}
		for _, f := range formats[len(formats)-3:] {
			rate := views.Median(f.rates) / 1e6
			t.add(fmt.Sprintf("**ours**, %s, %s", res.name, f.name), fmt.Sprintf("%.0f", rate), "", "", "", "", "")
			if res.name == "FHD" {
				fig.Lines = append(fig.Lines, line{Name: f.name, X: []float64{25, 100}, Y: []float64{rate, rate}})
			}
		}
		if r.Ours != "" {
			r.Ours += "; "
		}
		r.Ours += fmt.Sprintf("at %s L3 v2 dense has %.0f MB/s, the fastest lossy file %.0f", res.name, least, most)
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	r.Ours += "."
	r.Setup, r.Tables, r.Figures = "generated pictures, one thread, read from the disk; "+p.About, []table{t}, []figure{fig}
	return r, nil
}
