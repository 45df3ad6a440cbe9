package strategy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/stats"
)

// ShuffleConfig is what [Shuffle] is to do.
type ShuffleConfig struct {
	// Counts of samples, and Sizes of a sample in bytes; none means the usual ones.
	Counts []int
	Sizes  []int64
	// Buffer is the bytes that wait to be chosen; 0 means 64 MB.
	Buffer int64
	Rounds int // 0 means 5
	Seed   uint64
	// Progress hears what is being done; nil is nobody.
	Progress func(what string)
}

// ShuffleRow is what passing on so many samples took.
type ShuffleRow struct {
	Size    int64 `json:"size"`
	Samples int   `json:"samples"`
	Buffer  int   `json:"buffer"` // samples in it
	// Plain and Shuffled are seconds, one a round.
	Plain    []float64 `json:"plain_seconds"`
	Shuffled []float64 `json:"shuffled_seconds"`
	// PerSample is the seconds that shuffling adds to a sample, each round paired.
	PerSample stats.Interval `json:"per_sample"`
}

// Line is the straight line, by least squares, of the seconds that shuffling adds
// over the number of samples of one size.
type Line struct {
	Size      int64   `json:"size"`
	PerSample float64 `json:"per_sample"` // seconds
	Constant  float64 `json:"constant"`   // seconds
	// R2 is the share of the variance that the line explains: near 1 the cost is
	// linear. 0 where all costs are the same.
	R2 float64 `json:"r2"`
}

// Shuffling is all that was measured of shuffling.
type Shuffling struct {
	Rows  []ShuffleRow `json:"rows"`
	Lines []Line       `json:"lines"`
}

// Shuffle measures what a shuffle buffer adds to the time of a sample, and whether
// that is linear (PRESTO, section 4.5). The buffer is filled first; then each new
// sample takes the place of one that is drawn at random and passed on. Every sample
// is made, and copied into a batch at the end, with the buffer and without. When it
// is stopped it returns what there is, and the error too.
func Shuffle(ctx context.Context, c ShuffleConfig) (*Shuffling, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	s := &Shuffling{}
	for _, size := range c.Sizes {
		for _, n := range c.Counts {
			s.Rows = append(s.Rows, ShuffleRow{Size: size, Samples: n, Buffer: int(max(1, min(int64(n), c.Buffer/size)))})
		}
	}
	random := rand.New(rand.NewPCG(c.Seed, 5))
	err := c.measure(ctx, s, random)
	for i := range s.Rows {
		s.Rows[i].judge()
	}
	for _, size := range c.Sizes {
		var x, y []float64
		for _, row := range s.Rows {
			if row.Size == size && len(row.Shuffled) > 0 {
				x = append(x, float64(row.Samples))
				y = append(y, row.PerSample.Median*float64(row.Samples))
			}
		}
		if len(x) > 1 {
			s.Lines = append(s.Lines, line(size, x, y))
		}
	}
	return s, err
}

func (c *ShuffleConfig) complete() error {
	if len(c.Counts) == 0 {
		c.Counts = []int{1000, 2000, 4000, 8000}
	}
	if len(c.Sizes) == 0 {
		c.Sizes = []int64{10_000, 80_000, 640_000}
	}
	if c.Buffer <= 0 {
		c.Buffer = 64e6
	}
	if c.Rounds <= 0 {
		c.Rounds = 5
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	memory, err := loader.Memory()
	if err != nil {
		return err
	}
	if c.Buffer > memory/2 {
		return fmt.Errorf("a buffer of %.1f MB does not fit in the %.1f MB of memory that can be had", float64(c.Buffer)/1e6, float64(memory)/2e6)
	}
	for _, n := range c.Counts {
		if n < 1 {
			return fmt.Errorf("%d samples cannot be shuffled", n)
		}
	}
	for _, size := range c.Sizes {
		if size < 1 || size > c.Buffer {
			return fmt.Errorf("samples of %d bytes, in a buffer of %d", size, c.Buffer)
		}
	}
	return errors.Join(checkTwice("count", c.Counts), checkTwice("size", c.Sizes))
}

func (c *ShuffleConfig) measure(ctx context.Context, s *Shuffling, random *rand.Rand) error {
	for round := range c.Rounds {
		for _, i := range random.Perm(len(s.Rows)) {
			row := &s.Rows[i]
			c.Progress(fmt.Sprintf("shuffling %d samples of %d bytes, round %d of %d", row.Samples, row.Size, round+1, c.Rounds))
			var seconds [2]float64
			for _, k := range random.Perm(2) {
				buffer := []int{0, row.Buffer}[k]
				m := begin()
				if err := pass(ctx, row.Size, row.Samples, buffer, random); err != nil {
					return err
				}
				seconds[k] = m.end().seconds
			}
			row.Plain, row.Shuffled = append(row.Plain, seconds[0]), append(row.Shuffled, seconds[1])
		}
	}
	return nil
}

// pass passes samples on, through a buffer of so many; 0 is none. The memory of a
// sample that is done is that of the next: what a garbage collector does would be
// counted otherwise, which works the less the more is kept.
func pass(ctx context.Context, size int64, samples, buffer int, random *rand.Rand) error {
	model, batch := make([]byte, size), make([]byte, size)
	var free []byte
	waiting := make([][]byte, 0, buffer)
	for range samples {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := free
		if b == nil {
			b = make([]byte, size)
		}
		copy(b, model)
		if free = nil; len(waiting) < buffer {
			waiting = append(waiting, b)
			continue
		}
		if buffer > 0 {
			i := random.IntN(buffer)
			b, waiting[i] = waiting[i], b
		}
		copy(batch, b)
		free = b
	}
	// What is left comes out in random order, too.
	for len(waiting) > 0 {
		i, last := random.IntN(len(waiting)), len(waiting)-1
		copy(batch, waiting[i])
		waiting[i], waiting = waiting[last], waiting[:last]
	}
	runtime.KeepAlive(batch)
	return nil
}

func (r *ShuffleRow) judge() {
	added := make([]float64, len(r.Shuffled))
	for i := range added {
		added[i] = (r.Shuffled[i] - r.Plain[i]) / float64(r.Samples)
	}
	r.PerSample = stats.Bootstrap(added)
}

// line fits a line by least squares.
func line(size int64, x, y []float64) Line {
	n := float64(len(x))
	var meanX, meanY float64
	for i := range x {
		meanX, meanY = meanX+x[i]/n, meanY+y[i]/n
	}
	var xx, xy, yy float64
	for i := range x {
		dx, dy := x[i]-meanX, y[i]-meanY
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	l := Line{Size: size, Constant: meanY}
	if xx > 0 {
		l.PerSample = xy / xx
		l.Constant = meanY - l.PerSample*meanX
	}
	if xx > 0 && yy > 0 {
		l.R2 = xy * xy / (xx * yy)
	}
	return l
}
