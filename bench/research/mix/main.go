// Command mix measures mixes of materialized pixels and encoded files at several speeds of
// the disk: all eleven ratios, the one that `pipefs tune` chooses, and the formats
// on their own. It draws Figures 3 and 6 of Liquid (APSys 2023) with what it found.
//
//	bin/research/mix --program bin/pipefs --out bin/bench-mix
//
// It needs root, for the cgroup that slows the disk down.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/bench/research/run"
	"github.com/pipefs/pipefs/internal/cgroup"
)

// settings are the flags.
type settings struct {
	run.Paths
	samples    int
	width      int
	height     int
	rounds     int
	seconds    float64
	bandwidths []int64 // bytes a second; 0 is as fast as the disk is
	adaptive   []int64 // those at which a core is taken from an adaptive mount
	formats    []string
}

func main() { run.Main("mix", measure) }

func measure(ctx context.Context) error {
	var s settings
	var bandwidths, adaptive, formats string
	s.Flags("bin/bench-mix", "where the results go")
	flag.IntVar(&s.samples, "samples", 1000, "pictures of each format")
	flag.IntVar(&s.width, "width", 500, "of the pictures")
	flag.IntVar(&s.height, "height", 375, "of the pictures")
	flag.IntVar(&s.rounds, "rounds", 8, "how often everything is measured; half of it picks the best, half judges")
	flag.Float64Var(&s.seconds, "seconds", 1.2, "about how long a pass takes, if there are pictures enough")
	flag.StringVar(&bandwidths, "bandwidths", "25,50,100,200,400,0", "MB/s, 0 is no limit")
	flag.StringVar(&adaptive, "adaptive", "100", "MB/s at which an adaptive mount loses a core; empty is none")
	flag.StringVar(&formats, "formats", "png,jpeg", "of the sources")
	again := flag.Bool("again", false, "measure nothing: report what was measured before, in -out")
	flag.Parse()
	if *again {
		return report(s.Out)
	}
	for list, to := range map[string]*[]int64{bandwidths: &s.bandwidths, adaptive: &s.adaptive} {
		for word := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' }) {
			mb, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return err
			}
			*to = append(*to, int64(mb*1e6))
		}
	}
	s.formats = strings.Split(formats, ",")
	return s.Work(func(work string) error { return s.all(ctx, work) })
}

// all measures all formats at all speeds, and reports.
func (s *settings) all(ctx context.Context, work string) (err error) {
	disk, err := cgroup.Enter(work, cgroup.Limits{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	all := results{Disk: disk.Reads(), Settings: fmt.Sprintf("%d pictures of %d×%d, %d rounds", s.samples, s.width, s.height, s.rounds)}
	for _, format := range s.formats {
		store, err := s.prepare(ctx, work, format)
		if err != nil {
			return err
		}
		for _, bandwidth := range s.bandwidths {
			if err := disk.Set(cgroup.Limits{BytesPerSecond: bandwidth}); err != nil {
				return err
			}
			c, err := s.cell(ctx, store, format, bandwidth)
			if err != nil {
				return err
			}
			all.Cells = append(all.Cells, *c)
			fmt.Fprintln(os.Stderr, c.summary())
			if err := all.write(s.Out); err != nil { // what there is, should this be interrupted
				return err
			}
		}
		for _, bandwidth := range s.adaptive {
			if err := disk.Set(cgroup.Limits{BytesPerSecond: bandwidth}); err != nil {
				return err
			}
			a, err := s.adapt(ctx, store, format, bandwidth)
			if err != nil {
				return err
			}
			all.Adaptive = append(all.Adaptive, a)
			fmt.Fprintln(os.Stderr, a)
			if err := all.write(s.Out); err != nil {
				return err
			}
		}
		if err := errors.Join(disk.Set(cgroup.Limits{}), os.RemoveAll(filepath.Dir(store))); err != nil {
			return err
		}
	}
	fmt.Print(all.markdown())
	return all.draw(s.Out)
}

// report reports what a run has written.
func report(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "mix.json"))
	if err != nil {
		return err
	}
	var all results
	if err := json.Unmarshal(b, &all); err != nil {
		return fmt.Errorf("mix.json: %w", err)
	}
	fmt.Print(all.markdown())
	return all.draw(dir)
}

// prepare makes a dataset and a store that has all samples both ways.
func (s *settings) prepare(ctx context.Context, work, format string) (store string, err error) {
	fmt.Fprintf(os.Stderr, "making %d pictures as %s\n", s.samples, format)
	every := "0"
	if format == "png" {
		every = "1"
	}
	dir := filepath.Join(work, format)
	dataset, store := filepath.Join(dir, "dataset"), filepath.Join(dir, "store")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := run.Command(ctx, "go", "run", "./internal/pictures/genset", "-samples", strconv.Itoa(s.samples),
		"-width", strconv.Itoa(s.width), "-height", strconv.Itoa(s.height), "-png-every", every, dataset); err != nil {
		return "", err
	}
	// Originals are kept, since a mix is made from the files themselves.
	if err := run.Command(ctx, s.Program, "pack", "--originals", "keep", dataset, store); err != nil {
		return "", err
	}
	return store, run.Command(ctx, s.Program, "materialize", store, pixels)
}

func (r *results) write(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "mix.json"), append(b, '\n'), 0o644)
	}
	return err
}
