package strategy

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// each runs f on so many workers and waits for all of them; the first error ends the
// others.
func each(ctx context.Context, workers int, f func(ctx context.Context, worker int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			if err := f(ctx, w); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// queue hands out the numbers below its length, each once.
type queue struct {
	length int
	next   atomic.Int64
}

func (q *queue) take() (int, bool) {
	i := int(q.next.Add(1)) - 1
	return i, i < q.length
}

// readFile reads a file whole, into buf if that has room.
func readFile(name string, buf []byte) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return buf, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return buf, err
	}
	if !st.Mode().IsRegular() {
		return buf, fmt.Errorf("%s: no regular file", name)
	}
	if int64(cap(buf)) < st.Size() {
		buf = make([]byte, st.Size())
	}
	buf = buf[:st.Size()]
	if _, err := io.ReadFull(f, buf); err != nil {
		return buf, fmt.Errorf("%s: %w", name, err)
	}
	return buf, nil
}
