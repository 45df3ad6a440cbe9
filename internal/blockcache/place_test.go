package blockcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

// place is a place for objects whose bytes follow from their names, versions and offsets. It
// counts what is asked of it.
type place struct {
	blob.Objects
	name            string
	requests, bytes atomic.Int64
	gate            chan struct{} // each request takes one out of it, if there is one

	mu    sync.Mutex
	fails error
}

func (p *place) String() string { return p.name }

func (p *place) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = err
}

func (p *place) ReadAt(ctx context.Context, name string, v blob.Version, b []byte, off int64) error {
	p.requests.Add(1)
	p.bytes.Add(int64(len(b)))
	if p.gate != nil {
		select {
		case <-p.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails != nil {
		return p.fails
	}
	content(name+string(v), b, off)
	return nil
}

// noise is what objects consist of, each from a place of its own on. It is no multiple of any unit
// long, so that no two blocks of an object are the same.
var noise = func() []byte {
	b := make([]byte, 1<<20+7)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}()

// content writes the bytes of an object from off on.
func content(name string, b []byte, off int64) {
	seed := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		seed = (seed ^ uint64(c)) * 1099511628211
	}
	for at := (seed>>1 + uint64(off)) % uint64(len(noise)); len(b) > 0; at = 0 {
		b = b[copy(b, noise[at:]):]
	}
}

// object is one of a place, of any size.
func object(c *Cache, p *place, name string, size int64) *Object {
	return c.Object(p, blob.Info{Name: name, Size: size, Version: "1"})
}

// check reads a piece of an object of version 1, and compares it.
func check(o *Object, off, n int64) error {
	got, want := make([]byte, n), make([]byte, n)
	if _, err := o.ReadAt(got, off); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	content(o.info.Name+string(o.info.Version), want, off)
	want = want[:min(n, o.Size()-off)]
	if bytes.Equal(got[:len(want)], want) {
		return nil
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%s: the byte at %d is wrong, of %d from %d on", o.info.Name, off+int64(i), n, off)
		}
	}
	return nil
}

func opened(t testing.TB, dir string, o Options) *Cache {
	t.Helper()
	c, err := Open(dir, o)
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, c.Close()) })
	return c
}

// waitWritten waits until all that was asked for is on the disk, or will not be.
func (c *Cache) waitWritten(t testing.TB) {
	t.Helper()
	testenv.EventuallyIs(t, "something is being fetched", func() bool {
		if len(c.ahead) > 0 || !c.flying.TryAcquire(aheadRequests) {
			return false
		}
		c.flying.Release(aheadRequests)
		c.recentMu.Lock()
		recent := slices.Clone(c.recent)
		c.recentMu.Unlock()
		for _, s := range c.all() {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, listed := range s.flights {
				if slices.ContainsFunc(listed, func(f *flight) bool { return !slices.Contains(recent, f) }) {
					return false
				}
			}
		}
		return true
	})
}
