package main

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/transcode"
)

// lookAll looks at samples, several at once, and hands what it sees to each, one
// at a time and in no particular order. A sample that cannot be read is told to
// each with its error as fault.
func (s *input) lookAll(ctx context.Context, r *transcode.Registry, names []string, each func(sight)) error {
	var mu sync.Mutex
	var work errgroup.Group
	// reading headers waits for the disk more than it computes
	work.SetLimit(4 * runtime.GOMAXPROCS(0))
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		work.Go(func() error {
			seen, err := s.look(r, name)
			if err != nil {
				seen = sight{path: name, fault: err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			each(seen)
			return nil
		})
	}
	_ = work.Wait() // none of them fails
	return ctx.Err()
}

// countFiles finds the total of a progress in the background. What it returns
// waits until that has ended.
func (s *input) countFiles(ctx context.Context, r *transcode.Registry, bar *progress) func() {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l, err := s.list(r, func(error) {}, ctx.Err)
		if err == nil {
			bar.setTotal(len(l.samples) + l.others)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
