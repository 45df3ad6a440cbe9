package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Pass says how files are read.
type Pass struct {
	// Workers read at the same time; 0 means one a core.
	Workers int
	// Decode is what a worker does with the bytes of a file; nil does nothing.
	Decode func(ctx context.Context, data []byte) error
}

// Result is what a pass took.
type Result struct {
	Files   int
	Bytes   int64
	Seconds float64 // of wall time
	CPU     float64 // seconds, user and system, of this process
	// P50 and P99 are the time from open to the end of the file in seconds,
	// decoding not counted.
	P50, P99 float64
}

// Rate is in files a second.
func (r Result) Rate() float64 { return float64(r.Files) / r.Seconds }

// blockSize is in how many bytes at a time a file is read: what CPython takes for a
// file whose st_blksize is that of a mount.
const blockSize = 128 << 10

// Run reads and decodes all files. The first error ends it.
func (p Pass) Run(ctx context.Context, files []string) (Result, error) {
	workers := p.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, total atomic.Int64
	var group sync.WaitGroup
	times := make([]*hdrhistogram.Histogram, workers)
	began, cpu := time.Now(), ownCPU()
	for w := range workers {
		times[w] = hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
		group.Go(func() {
			var buf []byte
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(files) {
					return
				}
				opened := time.Now()
				var err error
				if buf, err = read(files[i], buf); err != nil {
					cancel(err)
					return
				}
				_ = times[w].RecordValue(max(1, time.Since(opened).Microseconds()))
				total.Add(int64(len(buf)))
				if p.Decode == nil {
					continue
				}
				if err := p.Decode(ctx, buf); err != nil {
					cancel(fmt.Errorf("%s: %w", files[i], err))
					return
				}
			}
		})
	}
	group.Wait()
	r := Result{Files: len(files), Bytes: total.Load(), Seconds: time.Since(began).Seconds(), CPU: ownCPU() - cpu}
	for _, t := range times[1:] {
		times[0].Merge(t)
	}
	r.P50, r.P99 = float64(times[0].ValueAtQuantile(50))/1e6, float64(times[0].ValueAtQuantile(99))/1e6
	if err := context.Cause(ctx); err != nil {
		return r, err
	}
	return r, nil
}

// read reads a file whole, into buf if that has room.
func read(name string, buf []byte) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return buf, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return buf, err
	}
	size := int(st.Size())
	if cap(buf) < size+1 {
		buf = make([]byte, size+size/4+1)
	}
	buf = buf[:cap(buf)]
	n := 0
	for {
		m, err := f.Read(buf[n:min(n+blockSize, len(buf))])
		n += m
		switch {
		case errors.Is(err, io.EOF):
			if n != size {
				return buf[:n], fmt.Errorf("%s: %d bytes where stat told %d", name, n, size)
			}
			return buf[:n], nil
		case err != nil:
			return buf[:n], err
		case n > size:
			return buf[:n], fmt.Errorf("%s: more than the %d bytes that stat told", name, size)
		}
	}
}
