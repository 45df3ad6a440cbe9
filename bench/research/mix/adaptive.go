package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/mixer"
)

// adapting is what was measured of a mount that mixes adaptively while one core is taken
// away from it.
type adapting struct {
	Format    string `json:"format"`
	Bandwidth int64  `json:"bandwidth"`
	// Alone and Beside are the rates at fixed shares, samples/s, without and with the
	// other load.
	Alone  [mixer.Ratios]float64 `json:"alone"`
	Beside [mixer.Ratios]float64 `json:"beside"`
	// Seconds are the rates of the adaptive mount, second by second; the other load
	// begins after Began of them.
	Seconds []float64 `json:"seconds"`
	Began   int       `json:"began"`
}

// Seconds: how long a fixed share is measured, and how the time of the adaptive mount is
// divided.
const (
	fixedSeconds = 4
	warmUp       = 10 // before the other load begins
	adjust       = 5  // what it may take to get used to it
	judged       = 8
)

// adapt measures it.
func (s *settings) adapt(ctx context.Context, store, format string, bandwidth int64) (_ *adapting, err error) {
	names, err := list(ctx, store, s.Program)
	if err != nil {
		return nil, err
	}
	a := &adapting{Format: format, Bandwidth: bandwidth, Began: warmUp}
	// The shares take turns, forth and back.
	for _, beside := range []bool{false, true} {
		to := &a.Alone
		stop := func() error { return nil }
		if beside {
			if stop, err = takeCore(ctx); err != nil {
				return nil, err
			}
			to = &a.Beside
		}
		order := make([]int, 0, 2*mixer.Ratios)
		for i := range mixer.Ratios {
			order = append(order, i)
		}
		back := slices.Clone(order)
		slices.Reverse(back)
		for _, i := range append(order, back...) {
			rates, err := s.watch(ctx, store, names, fmt.Sprint(mixer.ShareOf(i)), fixedSeconds, nil)
			if err != nil {
				return nil, errors.Join(err, stop())
			}
			to[i] += views.Median(rates[1:]) / 2
		}
		if err := stop(); err != nil {
			return nil, err
		}
	}
	var stop func() error
	a.Seconds, err = s.watch(ctx, store, names, "adaptive", warmUp+adjust+judged, func(second int) (err error) {
		if second == warmUp {
			stop, err = takeCore(ctx)
		}
		return err
	})
	if stop != nil {
		err = errors.Join(err, stop())
	}
	return a, err
}

// String tells the outcome.
func (a *adapting) String() string {
	best := func(v [mixer.Ratios]float64) float64 { return slices.Max(v[:]) }
	before, after := views.Median(a.Seconds[warmUp/2:warmUp]), views.Median(a.Seconds[warmUp+adjust:])
	c := cell{Bandwidth: a.Bandwidth}
	return fmt.Sprintf("%s, %s, adaptive: %.0f samples/s before and %.0f from 5 s after a core was taken; the best fixed shares have %.0f and %.0f: %.2f and %.2f",
		a.Format, c.speed(), before, after, best(a.Alone), best(a.Beside), before/best(a.Alone), after/best(a.Beside))
}

// watch mounts with the daemon's cache and reads at random, each time from the
// disk. It returns the samples of each second. each is called when one begins.
func (s *settings) watch(ctx context.Context, store string, names []string, mix string, seconds int, each func(second int) error) (rates []float64, err error) {
	options := []string{"--cache", "daemon", "--cache-bytes", "1M", "--mix", mix}
	err = views.With(ctx, s.Program, store, options, func(m *views.Mount) error {
		ctx, cancel := context.WithCancel(ctx)
		var group sync.WaitGroup
		defer func() { cancel(); group.Wait() }()
		var read atomic.Int64
		failed := make(chan error, 16)
		decode := loader.Pass{Workers: 1}
		for w := range 4 {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), 1))
				for ctx.Err() == nil {
					name := filepath.Join(m.Dir, pixels, names[random.IntN(len(names))])
					if _, err := decode.Run(ctx, []string{name}); err != nil {
						if ctx.Err() == nil {
							failed <- err
						}
						return
					}
					read.Add(1)
				}
			})
		}
		// The dataset is small; a large one would not stay in the page cache.
		group.Go(func() {
			for ctx.Err() == nil {
				if err := loader.Forget(store); err != nil {
					failed <- err
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
		before := read.Load()
		for second := range seconds {
			if each != nil {
				if err := each(second); err != nil {
					return err
				}
			}
			select {
			case <-time.After(time.Second):
			case err := <-failed:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
			now := read.Load()
			rates = append(rates, float64(now-before))
			before = now
		}
		return nil
	})
	return rates, err
}

// takeCore keeps the first core busy, with the highest ordinary priority, until it is
// told to stop. A real-time priority would also stop the threads of the kernel on that
// core, and with them the disk.
func takeCore(ctx context.Context) (stop func() error, err error) {
	cmd := exec.CommandContext(ctx, "nice", "-n", "-20", "taskset", "-c", "0", "sh", "-c", "while :; do :; done")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("nice, and taskset of util-linux, are needed: %w", err)
	}
	return func() error {
		if err := unix.Kill(-cmd.Process.Pid, unix.SIGKILL); err != nil {
			return err
		}
		if err := cmd.Wait(); stderr.Len() > 0 {
			return fmt.Errorf("taking a core: %w: %s", err, stderr.String())
		}
		return nil
	}, nil
}
