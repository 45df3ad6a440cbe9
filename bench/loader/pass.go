package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
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
	var total atomic.Int64
	times, bufs := make([]*hdrhistogram.Histogram, workers), make([][]byte, workers)
	for w := range times {
		times[w] = hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
	}
	began, cpu := time.Now(), OwnCPU()
	err := Each(ctx, workers, len(files), func(ctx context.Context, w, i int) (err error) {
		opened := time.Now()
		if bufs[w], err = ReadFile(files[i], bufs[w]); err != nil {
			return err
		}
		_ = times[w].RecordValue(max(1, time.Since(opened).Microseconds()))
		total.Add(int64(len(bufs[w])))
		if p.Decode != nil {
			if err := p.Decode(ctx, bufs[w]); err != nil {
				return fmt.Errorf("%s: %w", files[i], err)
			}
		}
		return nil
	})
	r := Result{Files: len(files), Bytes: total.Load(), Seconds: time.Since(began).Seconds(), CPU: OwnCPU() - cpu}
	for _, t := range times[1:] {
		times[0].Merge(t)
	}
	r.P50, r.P99 = float64(times[0].ValueAtQuantile(50))/1e6, float64(times[0].ValueAtQuantile(99))/1e6
	return r, err
}

// ReadFile reads a file whole, into buf if that has room. A nil buf gets no more memory
// than the file takes.
func ReadFile(name string, buf []byte) ([]byte, error) {
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
	switch {
	case buf == nil:
		buf = make([]byte, size+1)
	case cap(buf) < size+1:
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
