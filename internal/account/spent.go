package account

import (
	"context"
	"time"
)

// Part is what a request waits for.
type Part int

// The parts. What remains of a request is copying.
const (
	Source  Part = iota // reading the dataset, store or overlay
	Worker              // a place among those that compute
	Compute             // the steps of the view
	Memory              // a limit on memory
	parts
)

// Spent is where the time of one request went, or that of making one sample.
type Spent struct {
	Parts   [parts]time.Duration
	Fetched int64 // bytes
}

// Key is that of a *Spent in a context.
type Key struct{}

// With returns a context whose requests are noted in s.
func With(ctx context.Context, s *Spent) context.Context { return context.WithValue(ctx, Key{}, s) }

// From returns what notes the requests of a context, or nil: methods of nil do nothing.
func From(ctx context.Context) *Spent {
	s, _ := ctx.Value(Key{}).(*Spent)
	return s
}

// Add adds what was spent elsewhere on behalf of the same request.
func (s *Spent) Add(other *Spent) {
	if s == nil {
		return
	}
	for p, d := range other.Parts {
		s.Parts[p] += d
	}
	s.Fetched += other.Fetched
}

// Share notes that a request waited until somebody else had made what it wants. The time is divided as
// that of the maker is.
func (s *Spent) Share(maker *Spent, waited time.Duration) {
	if s == nil {
		return
	}
	all := time.Duration(0)
	for _, d := range maker.Parts {
		all += d
	}
	if all == 0 {
		return
	}
	for p, d := range maker.Parts {
		s.Parts[p] += time.Duration(float64(waited) * float64(d) / float64(all))
	}
}

// Lap divides time into parts.
type Lap struct {
	to *Spent
	at time.Time
}

// Lap begins one.
func (s *Spent) Lap() Lap {
	if s == nil {
		return Lap{}
	}
	return Lap{s, time.Now()}
}

// End notes that the time since the begin, or since the last End, was spent on a part.
func (l *Lap) End(p Part) {
	if l.to == nil {
		return
	}
	now := time.Now()
	l.to.Parts[p] += now.Sub(l.at)
	l.at = now
}
