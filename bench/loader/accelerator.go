package loader

import (
	"context"
	"slices"
	"time"
)

// deep is the most batches that wait for an accelerator: as many as two workers of a
// DataLoader fetch ahead.
const deep = 4

// accelerator takes batches of samples from a bounded queue and counts them. If the job
// emulates an accelerator, it sleeps for as long as computing would take.
type accelerator struct {
	compute       Compute
	samples, warm int // of the epoch, and those before the clock starts
	queue         chan struct{}

	seen     int // samples
	since    time.Time
	before   int             // samples that were seen at that time
	waits    []time.Duration // for a batch each, since then
	computed time.Duration   // since then
}

func newAccelerator(job Job, samples int) *accelerator {
	return &accelerator{
		compute: job.Compute, samples: samples, warm: job.Warm,
		queue: make(chan struct{}, deep*max(1, job.Compute.Batch)), since: time.Now(),
	}
}

// put hands a sample over, and waits where the queue is full.
func (a *accelerator) put(ctx context.Context) error {
	select {
	case a.queue <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run takes all samples. It returns early when ctx ends.
func (a *accelerator) run(ctx context.Context) {
	for a.seen < a.samples {
		asked := time.Now()
		n := min(max(1, a.compute.Batch), a.samples-a.seen)
		for range n {
			select {
			case <-a.queue:
			case <-ctx.Done():
				return
			}
		}
		a.seen += n
		if took := a.compute.Per(n); took > 0 {
			a.waits = append(a.waits, time.Since(asked))
			a.computed += took
			select {
			case <-time.After(took):
			case <-ctx.Done():
				return
			}
		}
		if a.warm > 0 && a.before == 0 && a.seen >= a.warm && a.samples-a.seen >= a.warm {
			a.since, a.before, a.waits, a.computed = time.Now(), a.seen, nil, 0
		}
	}
}

// fill writes what was seen until now into e.
func (a *accelerator) fill(e *Epoch) {
	seconds := time.Since(a.since).Seconds()
	e.Samples, e.Rate = a.seen, float64(a.seen-a.before)/seconds
	if len(a.waits) > 0 {
		e.Utilisation = a.computed.Seconds() / seconds
		slices.Sort(a.waits)
		e.Wait99 = a.waits[len(a.waits)-1-len(a.waits)/100].Seconds()
	}
}
