package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
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
	times, bufs := make([]time.Duration, len(files)), make([][]byte, workers)
	began, cpu := time.Now(), OwnCPU()
	err := Each(ctx, workers, len(files), func(ctx context.Context, w, i int) (err error) {
		opened := time.Now()
		if bufs[w], err = ReadFile(files[i], bufs[w]); err != nil {
			return err
		}
		times[i] = time.Since(opened)
		total.Add(int64(len(bufs[w])))
		if p.Decode != nil {
			if err := p.Decode(ctx, bufs[w]); err != nil {
				return fmt.Errorf("%s: %w", files[i], err)
			}
		}
		return nil
	})
	r := Result{Files: len(files), Bytes: total.Load(), Seconds: time.Since(began).Seconds(), CPU: OwnCPU() - cpu}
	if slices.Sort(times); len(times) > 0 {
		r.P50, r.P99 = times[len(times)/2].Seconds(), times[len(times)-1-len(times)/100].Seconds()
	}
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

// Each does n things on so many workers at the same time; 0 means one a core. do is
// told on which worker it runs, so that a worker can keep memory of its own. The first
// error ends it.
func Each(ctx context.Context, workers, n int, do func(ctx context.Context, worker, i int) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, w, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// Forget asks the page cache to drop all regular files below dir, after writing
// back what is dirty. It needs no privilege, and drops nothing that somebody has
// mapped.
func Forget(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return drop(name, true)
	})
}

// Drop is Forget for files that are not dirty. It does not wait for the disk.
func Drop(names []string) error {
	for _, name := range names {
		if err := drop(name, false); err != nil {
			return err
		}
	}
	return nil
}

func drop(name string, sync bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if sync {
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return &fs.PathError{Op: "fdatasync", Path: name, Err: err}
		}
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return &fs.PathError{Op: "fadvise", Path: name, Err: err}
	}
	return nil
}

// Evenly picks n of the names, evenly spread, or all where there are no more.
func Evenly(names []string, n int) []string {
	if len(names) <= n {
		return names
	}
	picked := make([]string, n)
	for i := range picked {
		picked[i] = names[i*len(names)/n]
	}
	return picked
}
