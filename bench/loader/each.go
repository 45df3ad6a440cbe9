package loader

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Each does n things on so many workers at the same time; 0 means one a core. do is
// told on which worker it runs, so that a worker can keep memory of its own. The first
// error ends it.
func Each(ctx context.Context, workers, n int, do func(ctx context.Context, worker, i int) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, w, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}
