package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reading is what one rank has read of an epoch.
type reading struct {
	paths   []string // of the samples, in order
	seconds float64
	first   float64   // seconds until index.json and the first batch were read
	gaps    []float64 // seconds of each later batch
}

// place is a rank of a world in an epoch.
type place struct{ seed, epoch, world, rank int }

func (s *settings) dir(mnt string, p place) string {
	return filepath.Join(mnt, fmt.Sprintf(".epoch/%d/%d/%d/%d/%d%s/%s", p.seed, p.epoch, p.world, p.rank, s.batch, s.options, s.view))
}

// read reads an epoch as a training does: a batch after the other, past the page cache.
func (s *settings) read(mnt string, p place) (r reading, err error) {
	dir := s.dir(mnt, p)
	start := time.Now()
	b, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return r, err
	}
	var index struct{ Batches int }
	if err := json.Unmarshal(b, &index); err != nil {
		return r, err
	}
	var buffer []byte
	last := start
	for k := range index.Batches {
		name := filepath.Join(dir, fmt.Sprintf("%06d", k))
		if buffer, err = readDirect(name+".npy", buffer); err != nil {
			return r, err
		}
		now := time.Now()
		if k == 0 {
			r.first = now.Sub(start).Seconds()
		} else {
			r.gaps = append(r.gaps, now.Sub(last).Seconds())
		}
		last = now
		lines, err := os.ReadFile(name + ".paths.txt")
		if err != nil {
			return r, err
		}
		r.paths = append(r.paths, strings.Fields(string(lines))...)
	}
	r.seconds = time.Since(start).Seconds()
	return r, nil
}

// readDirect reads a file past the page cache into a buffer, which may grow.
func readDirect(name string, buffer []byte) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return buffer, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return buffer, err
	}
	if int64(len(buffer)) < st.Size {
		buffer = aligned(int(st.Size))
	}
	for off := int64(0); off < st.Size; {
		n, err := unix.Pread(fd, buffer[off:st.Size], off)
		if err == nil && n == 0 {
			err = fmt.Errorf("it ends at %d of %d bytes", off, st.Size)
		}
		if err != nil {
			return buffer, &os.PathError{Op: "read", Path: name, Err: err}
		}
		off += int64(n)
	}
	return buffer, nil
}

// aligned is memory for direct reads.
func aligned(n int) []byte {
	const page = 4096
	b := make([]byte, n+page)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	return b[skip : skip+n]
}
