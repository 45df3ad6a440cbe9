package main

import (
	"bytes"
	"context"
	_ "embed" // for the programs in Python
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/research/strategy"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// env is what experiments share.
type env struct {
	settings
	kept   *kept
	work   string // directory for the length of the run
	used   string // directory for the length of an experiment
	prefix string // of lines that tell progress

	group    *cgroup.Group
	groupErr error
	photos   []string // see photographs

	mixesFound *mixed            // see mixes
	stores     map[string]string // see liquidStores
	found      found
}

func (s *settings) newEnv() (_ *env, err error) {
	e := &env{settings: *s, found: found{sets: map[string]*cvSet{}, profiles: map[string]*strategy.Report{}}}
	for _, path := range []*string{&e.program, &e.out, &e.pictures} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	// Beside the results, and not in /tmp, which may be in memory: the disk is slowed
	// down.
	if e.work, err = os.MkdirTemp(e.out, "work-"); err != nil {
		return nil, err
	}
	e.used = filepath.Join(e.work, "now")
	// What mounts keep goes with it.
	for _, v := range []string{"CACHE", "STATE"} {
		if err := os.Setenv("XDG_"+v+"_HOME", filepath.Join(e.work, strings.ToLower(v))); err != nil {
			return nil, err
		}
	}
	e.group, e.groupErr = cgroup.Enter(e.work, cgroup.Limits{})
	return e, os.Mkdir(e.used, 0o755)
}

func (e *env) close() error {
	err := os.RemoveAll(e.work)
	if e.group != nil {
		err = errors.Join(err, e.group.Close())
	}
	return err
}

// tidy removes what the last experiment used.
func (e *env) tidy() error {
	return errors.Join(os.RemoveAll(e.used), os.Mkdir(e.used, 0o755))
}

func (e *env) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", e.prefix, fmt.Sprintf(format, args...))
}

// n scales a number of things: full of them at a scale of 1, and at least the least.
func (e *env) n(full, least int) int { return max(least, int(float64(full)*e.scale+0.5)) }

// limit slows the disk down; 0 is as fast as it is.
func (e *env) limit(bytesPerSecond int64) error {
	switch {
	case e.group != nil:
		return e.group.Set(cgroup.Limits{BytesPerSecond: bytesPerSecond})
	case bytesPerSecond == 0:
		return nil
	}
	return fmt.Errorf("a slow disk is needed, by a cgroup, as root: %w", e.groupErr)
}

// mount mounts and hands the mount over, and unmounts.
func (e *env) mount(ctx context.Context, source string, options []string, use func(m *views.Mount) error) error {
	return views.With(ctx, e.program, source, options, use)
}

// pipefs runs a command of pipefs.
func (e *env) pipefs(ctx context.Context, args ...string) error {
	_, err := command(ctx, e.program, args...)
	return err
}

// command runs a program and returns what it printed.
func command(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, tail(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// tail is the end of the messages of a program.
func tail(s string) string {
	const most = 1000
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-most):]
}

// script puts a program in Python where it can be run.
func (e *env) script(name, text string) (string, error) {
	name = filepath.Join(e.work, name)
	return name, os.WriteFile(name, []byte(text), 0o644)
}

// Photographs that are generated: about 90 kB in the mean.
const (
	photoWidth, photoHeight = 760, 570
	photoQuality            = 95
)

// photographs returns JPEG files, at most n of them.
func (e *env) photographs(ctx context.Context, n int) ([]string, error) {
	if len(e.photos) >= n {
		return e.photos[:n], nil
	}
	if e.pictures != "" {
		if e.photos != nil {
			return e.photos, nil // there are no more
		}
		names, err := jpegFiles(e.pictures)
		if err != nil {
			return nil, err
		}
		e.photos = names
		return names[:min(n, len(names))], nil
	}
	dir := filepath.Join(e.work, "photographs")
	e.say("making %d photographs of %d×%d pixels", n-len(e.photos), photoWidth, photoHeight)
	made, err := generate(ctx, dir, "jpg", len(e.photos), n, photoWidth, photoHeight)
	e.photos = append(e.photos, made...)
	return e.photos, err
}

// photoSet says what the photographs are.
func (e *env) photoSet(n int) string {
	if e.pictures != "" {
		return fmt.Sprintf("%d JPEG files of %s", n, filepath.Base(e.pictures))
	}
	return fmt.Sprintf("%d generated pictures of %d×%d pixels, JPEG of quality %d", n, photoWidth, photoHeight, photoQuality)
}

// jpegFiles finds the JPEG files below a directory that pipefs can cut into scans.
func jpegFiles(dir string) (names []string, err error) {
	registry := codecs.Default(transcode.Limits{})
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !registry.IsSample(name) {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if info, err := registry.ProbeBytes(b); err == nil && info.Format == transcode.JPEG && info.Scannable {
			names = append(names, name)
		}
		return nil
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s holds no JPEG file", dir)
	}
	return names, err
}

// generate writes pictures number from to to, as jpg or png.
func generate(ctx context.Context, dir, format string, from, to, width, height int) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	names := make([]string, to-from)
	err := loader.Each(ctx, 0, len(names), func(_ context.Context, _, i int) error {
		names[i] = filepath.Join(dir, fmt.Sprintf("%06d.%s", from+i, format))
		b, err := encode(photo(width, height, uint64(from+i)), format, photoQuality)
		if err != nil {
			return err
		}
		return os.WriteFile(names[i], b, 0o644)
	})
	return names, err
}

// photo is a generated picture whose grain is as smooth as that of a camera. Each pixel
// is blended with its neighbours, so that the last scans of a JPEG hold about half of it,
// and not nearly all.
func photo(width, height int, seed uint64) *image.NRGBA {
	from := pictures.Photo(width, height, seed)
	to := image.NewNRGBA(from.Rect)
	weights := [3]int{1, 2, 1}
	for y := range height {
		for x := range width {
			at := to.PixOffset(x, y)
			for c := range 3 {
				sum := 8
				for dy, v := range weights {
					row := min(height-1, max(0, y+dy-1)) * from.Stride
					for dx, h := range weights {
						sum += v * h * int(from.Pix[row+4*min(width-1, max(0, x+dx-1))+c])
					}
				}
				to.Pix[at+c] = uint8(sum / 16)
			}
			to.Pix[at+3] = 255
		}
	}
	return to
}

func encode(m image.Image, format string, quality int) ([]byte, error) {
	var b bytes.Buffer
	var err error
	if format == "png" {
		err = png.Encode(&b, m)
	} else {
		err = jpeg.Encode(&b, m, &jpeg.Options{Quality: quality})
	}
	return b.Bytes(), err
}

// copies writes each file so many times below a directory, under other names: a
// large dataset, quickly.
func copies(dir string, names []string, times int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for n, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for c := range times {
			to := filepath.Join(dir, fmt.Sprintf("%03d_%05d%s", c, n, filepath.Ext(name)))
			if err := os.WriteFile(to, b, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// listed are the files of a directory in the order in which it lists them.
func listed(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
	}
	return names, err
}

// decode decodes as Pillow would.
func decode() func(context.Context, []byte) error {
	return loader.Decoder(codecs.Default(transcode.Limits{}))
}

// threadCPU is the seconds that this thread has used.
func threadCPU() float64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return float64(t.Nano()) / 1e9
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(1, len(v)))
}

// quantile of v, q from 0 to 1.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[int(q*float64(len(v)-1)+0.5)]
}
