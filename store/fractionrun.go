package store

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/semaphore"
)

// making is a result on its way into a pack. Results are written in the order in
// which they are wanted, whoever is done first.
type making struct {
	w    Wanted
	i    int32
	made Made
	err  error
	done chan struct{}
}

// makeMissing makes what is missing, on all workers.
func (m *materializing) makeMissing(ctx context.Context) error {
	missing := m.missing()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work, pending := make(chan *making), make(chan *making, 2*m.o.Workers)
	memory := semaphore.NewWeighted(m.o.MemoryBytes)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(pending)
		defer close(work)
		for _, i := range missing {
			j := &making{w: m.wanted[i], i: i, done: make(chan struct{})}
			if memory.Acquire(ctx, m.weight(&j.w)) != nil || !hand(ctx, pending, j) || !hand(ctx, work, j) {
				return
			}
		}
	})
	for range m.o.Workers {
		wg.Go(func() {
			for j := range work {
				j.made, j.err = m.makeOne(ctx, j.w)
				close(j.done)
			}
		})
	}
	err := m.commit(ctx, pending, memory)
	cancel()
	wg.Wait()
	return err
}

// weight is what a result takes of the memory budget; one is always let through.
func (m *materializing) weight(w *Wanted) int64 {
	return min(max(w.Weight, 0)+4<<10, m.o.MemoryBytes)
}

// hand passes a result on, unless the run is to end.
func hand(ctx context.Context, to chan<- *making, j *making) bool {
	select {
	case to <- j:
		return true
	case <-ctx.Done():
		return false
	}
}

func (m *materializing) makeOne(ctx context.Context, w Wanted) (made Made, err error) {
	// One hostile sample must not end a run of hours.
	defer func() {
		if r := recover(); r != nil {
			made, err = Made{}, fmt.Errorf("the maker panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return m.maker.Make(ctx, w)
}

// commit writes results in order.
func (m *materializing) commit(ctx context.Context, pending <-chan *making, memory *semaphore.Weighted) error {
	for {
		var j *making
		select {
		case j = <-pending:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j == nil {
			return ctx.Err()
		}
		select {
		case <-j.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j.err != nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			m.report.Failed++
			m.o.Warn(j.w.Path, j.err)
		} else if err := m.put(j); err != nil {
			return err
		}
		memory.Release(m.weight(&j.w))
		m.o.Progress(m.report.FractionProgress)
	}
}

// put writes a result.
func (m *materializing) put(j *making) error {
	if j.made.Release != nil {
		defer j.made.Release()
	}
	it, err := newItem(Sample{Path: j.w.Path, Kind: File, Source: j.w.Source}, Encoded{
		Info: j.made.Info, Representations: []EncodedRepresentation{{Key: j.w.Key, Split: j.made.Split}},
	})
	if err != nil {
		m.report.Failed++
		m.o.Warn(j.w.Path, err)
		return nil
	}
	rec, err := layOut([]*item{it})
	if err != nil {
		return err
	}
	if err := m.append(j.i, rec); err != nil {
		return err
	}
	m.report.Made++
	return nil
}
