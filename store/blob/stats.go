package blob

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Stats is what a Bucket has asked of its server since it was opened.
type Stats struct {
	Requests   uint64 `json:"requests"`   // sent, with those that were repeated
	Retries    uint64 `json:"retries"`    // of these, repetitions
	Overloaded uint64 `json:"overloaded"` // answers that the server has too much to do, and time-outs
	GivenUp    uint64 `json:"given_up"`   // operations that failed for want of an answer
	BytesRead  uint64 `json:"bytes_read"`
	BytesPut   uint64 `json:"bytes_put"`
	Parallel   int    `json:"parallel"` // requests that may be in flight at the moment
	// Latency of requests that went well, to the last byte of the answer, in seconds.
	LatencyMedian float64 `json:"latency_median"`
	LatencyP99    float64 `json:"latency_p99"`
}

type counters struct {
	requests, retries, overloaded, givenUp, read, put atomic.Uint64

	answered atomic.Bool // once
	mu       sync.Mutex
	latency  *hdrhistogram.Histogram // µs
}

func newCounters() *counters {
	return &counters{latency: hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 2)}
}

func (c *counters) count(r request, v verdict, took time.Duration) {
	c.requests.Add(1)
	switch v {
	case overloaded:
		c.overloaded.Add(1)
	case done:
		if r.op == OpGet {
			c.read.Add(uint64(r.size))
		} else {
			c.put.Add(uint64(r.size))
		}
		c.mu.Lock()
		_ = c.latency.RecordValue(max(1, took.Microseconds()))
		c.mu.Unlock()
	}
	if v == done || v == final {
		c.answered.Store(true)
	}
}

// Stats tells what was asked of the server.
func (b *Bucket) Stats() Stats {
	c := b.stats
	s := Stats{
		Requests: c.requests.Load(), Retries: c.retries.Load(), Overloaded: c.overloaded.Load(), GivenUp: c.givenUp.Load(),
		BytesRead: c.read.Load(), BytesPut: c.put.Load(), Parallel: b.limit.current(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latency.TotalCount() > 0 {
		s.LatencyMedian = float64(c.latency.ValueAtQuantile(50)) / 1e6
		s.LatencyP99 = float64(c.latency.ValueAtQuantile(99)) / 1e6
	}
	return s
}
