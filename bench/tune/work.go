package tune

import (
	"context"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// work is loading and decoding without a mount.
type work struct {
	Opened
	view    transcode.Pipeline
	workers int
}

// each calls f for 0 to n-1 on all workers and returns the seconds that it took.
func (w work) each(ctx context.Context, n int, f func(i int) error) (float64, error) {
	began := time.Now()
	err := loader.Each(ctx, w.workers, n, func(_ context.Context, _, i int) error { return f(i) })
	return time.Since(began).Seconds(), err
}

// load reads what a policy chooses into memory.
func (w work) load(ctx context.Context, files []serve.File, policy mixer.Policy) (float64, []serve.Fetched, error) {
	fetched := make([]serve.Fetched, len(files))
	seconds, err := w.each(ctx, len(files), func(i int) error {
		h, err := w.Resolve(ctx, uint64(i), files[i], w.view, serve.Planned)
		if err == nil {
			fetched[i], err = h.Fetch(ctx, policy)
		}
		return err
	})
	return seconds, fetched, err
}

// finish decodes what was loaded.
func (w work) finish(ctx context.Context, fetched []serve.Fetched) (float64, error) {
	return w.each(ctx, len(fetched), func(i int) error { return fetched[i].Finish(ctx) })
}
