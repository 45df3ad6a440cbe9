package strategy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/transcode"
)

// Epochs is what epochs with one cache took.
type Epochs struct {
	// Rates are in samples/s, one a round.
	Rates []float64 `json:"rates,omitempty"`
	// CPU is seconds a sample, user and system; Disk is bytes an epoch that came from
	// a disk. Medians of the rounds.
	CPU  float64 `json:"cpu_seconds"`
	Disk float64 `json:"disk_bytes"`
	// Error is why there are no figures.
	Error string `json:"error,omitempty"`

	cpus, disks []float64
}

// Rate is the median of the rounds.
func (e *Epochs) Rate() float64 {
	if e == nil {
		return 0
	}
	return stats.Median(e.Rates)
}

// add adds an epoch over n samples.
func (e *Epochs) add(c cost, n int) {
	e.Rates = append(e.Rates, float64(n)/c.seconds)
	e.cpus = append(e.cpus, c.cpu/float64(n))
	e.disks = append(e.disks, float64(c.disk))
	e.CPU, e.Disk = stats.Median(e.cpus), stats.Median(e.disks)
}

// epoch runs the online part of a strategy: it makes the final result of every sample
// once, from what payloads hands over.
func (s *stored) epoch(ctx context.Context, check visit, payloads func(ctx context.Context, do visit) error) (cost, error) {
	var count, bytes atomic.Int64
	m := begin()
	err := payloads(ctx, func(ctx context.Context, i int, p transcode.Payload) error {
		out, err := s.samples[i].run(ctx, s.limits, p, s.at().Steps, s.steps)
		if err != nil {
			return err
		}
		count.Add(1)
		bytes.Add(size(out))
		if check != nil {
			return check(ctx, i, out)
		}
		return nil
	})
	c := m.end()
	if err != nil {
		return c, err
	}
	var want int64
	for _, sample := range s.samples {
		want += sample.result
	}
	if count.Load() != int64(len(s.samples)) || bytes.Load() != want {
		return c, fmt.Errorf("%s gave %d results of %d bytes, where %d of %d were expected: the dataset has changed, or what was stored is damaged",
			s.at().Name, count.Load(), bytes.Load(), len(s.samples), want)
	}
	return c, nil
}

// fromDisk reads once what is stored.
func (s *stored) fromDisk(workers int, random *rand.Rand) func(context.Context, visit) error {
	return func(ctx context.Context, do visit) error { return s.read(ctx, workers, random, false, do) }
}

// load deserialises everything into memory, and returns a function that visits all of it.
func (s *stored) load(ctx context.Context, workers int, random *rand.Rand) (func(context.Context, visit) error, error) {
	kept := make([]transcode.Payload, len(s.samples))
	err := s.read(ctx, workers, random, true, func(_ context.Context, i int, p transcode.Payload) error {
		kept[i] = p
		return nil
	})
	return func(ctx context.Context, do visit) error {
		return loader.Each(ctx, workers, len(kept), func(ctx context.Context, _, i int) error {
			return s.samples[i].changed(do(ctx, i, kept[i]))
		})
	}, err
}
