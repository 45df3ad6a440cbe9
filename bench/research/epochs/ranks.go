package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/views"
)

// ranks compares eight readers of an epoch, as eight ranks, with one.
func (s *settings) ranks(ctx context.Context) error {
	dataset, err := s.copied()
	if err != nil {
		return err
	}
	const world = 8
	return s.mount(ctx, dataset, func(m *views.Mount) error {
		if _, err := s.read(m.Dir, place{7, 1000, 1, 0}); err != nil { // into the page cache
			return err
		}
		cpu := map[int][]float64{}
		rates := map[int][]float64{}
		for round := range s.rounds {
			for _, world := range []int{1, world} {
				used, images, seconds, err := s.world(m, round, world)
				if err != nil {
					return err
				}
				cpu[world] = append(cpu[world], used/float64(images)*1000)
				rates[world] = append(rates[world], float64(images)/seconds)
				fmt.Printf("round %d: %d readers, %.0f images/s, %.3f ms of CPU an image\n", round, world, float64(images)/seconds, used/float64(images)*1000)
			}
		}
		i := views.Paired(cpu[world], cpu[1])
		fmt.Printf("medians: one reader %.0f images/s, %.3f ms; %d ranks %.0f images/s, %.3f ms of CPU an image, readers and daemon; CPU %.3f (%.3f – %.3f) of one reader's\n",
			views.Median(rates[1]), views.Median(cpu[1]), world, views.Median(rates[world]), views.Median(cpu[world]), i.Median, i.Low, i.High)
		return nil
	})
}

// world reads an epoch by all ranks at once, and checks that no sample is missing, and none read
// twice but those that make the ranks even.
func (s *settings) world(m *views.Mount, epoch, world int) (cpu float64, images int, seconds float64, err error) {
	read := make([]reading, world)
	errs := make([]error, world)
	before := ownCPU()
	daemon, err := m.Spent(func() error {
		var ranks sync.WaitGroup
		for rank := range world {
			ranks.Go(func() { read[rank], errs[rank] = s.read(m.Dir, place{7, epoch, world, rank}) })
		}
		ranks.Wait()
		return errors.Join(errs...)
	})
	if err != nil {
		return 0, 0, 0, err
	}
	times := map[string]int{}
	for _, r := range read {
		seconds = max(seconds, r.seconds)
		images += len(r.paths)
		for _, path := range r.paths {
			times[path]++
		}
	}
	padded := images - len(times)
	for path, n := range times {
		if n > 2 {
			return 0, 0, 0, fmt.Errorf("%s was read %d times", path, n)
		}
	}
	if padded >= world {
		return 0, 0, 0, fmt.Errorf("%d samples were read twice by %d ranks", padded, world)
	}
	if n, err := s.samples(m.Dir); err != nil || n != len(times) {
		return 0, 0, 0, errors.Join(err, fmt.Errorf("%d samples of %d were read", len(times), n))
	}
	return daemon.CPU + ownCPU() - before, images, seconds, nil
}

// ownCPU is the CPU seconds, user and system, of this process.
func ownCPU() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// samples is how many there are, by the mount's own tree.
func (s *settings) samples(mnt string) (n int, err error) {
	classes, err := os.ReadDir(mnt + "/original")
	for _, class := range classes {
		files, listed := os.ReadDir(mnt + "/original/" + class.Name())
		n, err = n+len(files), errors.Join(err, listed)
	}
	return n, err
}
