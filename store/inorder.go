package store

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/semaphore"
)

// work is one piece of what fills packs: something is made, and then stored.
type work struct {
	// weight is about how many bytes of memory it takes until it is stored.
	weight int64
	// make runs on any goroutine, together with that of other pieces. Nil: there is
	// nothing to make.
	make func(context.Context) error
	// store runs alone, in the order in which the work was found. It gets the error
	// of make; its own error ends everything.
	store func(made error) error

	made error
	done chan struct{} // closed once make has returned
}

func (w *work) run(ctx context.Context) {
	defer close(w.done)
	// One hostile sample must not end a run of hours.
	defer func() {
		if r := recover(); r != nil {
			w.made = fmt.Errorf("panicked: %v\n%s", r, debug.Stack())
		}
	}()
	w.made = w.make(ctx)
}

// inOrder makes the work that find hands over on several workers, and stores it in the
// order in which it was found. Work that is made and not yet stored takes at most memory
// bytes; one piece is always let through. Work that was found before find failed is
// stored.
func inOrder(ctx context.Context, workers int, memory int64, find func(ctx context.Context, hand func(work) error) error) error {
	ctx, cancel := context.WithCancel(ctx)
	todo, pending := make(chan *work), make(chan *work, 2*workers)
	budget := semaphore.NewWeighted(memory)
	pass := func(to chan<- *work, w *work) error {
		select {
		case to <- w:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	hand := func(w work) error {
		w.weight = min(w.weight, memory)
		if err := budget.Acquire(ctx, w.weight); err != nil {
			return err
		}
		if w.done = make(chan struct{}); w.make == nil {
			close(w.done)
			return pass(pending, &w)
		}
		if err := pass(pending, &w); err != nil {
			return err
		}
		return pass(todo, &w)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	found := make(chan error, 1)
	wg.Go(func() {
		defer close(pending)
		defer close(todo)
		found <- find(ctx, hand)
	})
	for range workers {
		wg.Go(func() {
			for w := range todo {
				w.run(ctx)
			}
		})
	}
	for w := range pending {
		select {
		case <-w.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if w.made != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.store(w.made); err != nil {
			return err
		}
		budget.Release(w.weight)
	}
	return <-found
}
