package serve

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// simDisk takes its time.
type simDisk struct{ s *testenv.Sim }

func (simDisk) Begin() time.Time      { return time.Now() }
func (d simDisk) Done(time.Time, int) { d.s.Sleep(2) }

// TestSimulation: readers of a few files in several views, who go away, while others are loaded ahead of readers and given
// up, and while all memory is taken back. Memory that is used again is overwritten first. Whoever gets bytes gets those of
// the file and view that he opened, and no memory stays taken.
func TestSimulation(t *testing.T) {
	root := writeDataset(t)
	names, specs := []string{"a.jpg", "c.png", "labels.json"}, []string{"original", "npy", "stored-npy", "scan2", "resize63-bmp"}
	wanted := map[[2]string][]byte{}
	for _, name := range names {
		for _, spec := range specs {
			v := view(t, spec)
			if v.Stored() { // nothing is stored
				v = transcode.Pipeline{}
			}
			wanted[[2]string{name, spec}] = want(t, root, name, v)
		}
	}
	testenv.Simulate(t, 40, func(s *testenv.Sim) {
		d, err := source.Open(root, source.Options{Limit: simDisk{s}})
		testenv.Must(s.T, err)
		defer d.Close()
		server, err := New(Options{Registry: registry, Source: d, Dataset: d, Workers: 1 + s.IntN(2), CacheBytes: 200_000, MaxOpen: 16 * (1 + s.IntN(2)), Memfd: s.OneIn(2)})
		testenv.Must(s.T, err)
		server.sources.poison, server.outputs.poison = true, true
		server.Unhinted()
		target := func() (_ Target, name, spec string) {
			i, j := s.IntN(len(names)), s.IntN(len(specs))
			name, spec = names[i], specs[j]
			a, err := server.Stat(name, false)
			testenv.Must(s.T, err)
			key := Key(j+1)<<32 | Key(i)
			if spec == "stored-npy" {
				key = Key(2)<<32 | Key(i) // that of npy
			}
			return Target{Key: key, Original: Key(1)<<32 | Key(i), File: File{Path: name, Identity: a.Identity}, View: view(s.T, spec), Since: time.Now()}, name, spec
		}
		reads := func() {
			for range 6 {
				s.Sleep(2)
				of, name, spec := target()
				ctx, cancel := context.WithCancel(context.Background())
				if s.OneIn(4) {
					time.AfterFunc(time.Duration(s.IntN(5))*time.Millisecond, cancel)
				}
				h, err := server.Resolve(ctx, of.Key, of.File, of.View, Sized)
				if err == nil && h.Unchanged() {
					h, err = server.Resolve(ctx, of.Original, of.File, transcode.Pipeline{}, Sized)
				}
				var c *Content
				if err == nil {
					c, err = h.Open(ctx)
				}
				if err == nil {
					want := wanted[[2]string{name, spec}]
					if c.Size() != int64(len(want)) || h.Size() != c.Size() {
						s.Errorf("%s in %s: %d bytes, %d were promised, want %d", name, spec, c.Size(), h.Size(), len(want))
					}
					for off := 0; off < len(want); off += len(want)/2 + 1 {
						s.Sleep(2)
						n := min(len(want)/2+1, len(want)-off)
						b := c.Bytes(int64(off), n)
						if b == nil {
							b = make([]byte, n)
							_, err = c.ReadAt(b, int64(off))
						}
						if s.OneIn(4) {
							h.Drop() // as when somebody else has read the rest
						}
						if s.Sleep(2); !bytes.Equal(b, want[off:off+n]) {
							s.Errorf("%s in %s has other bytes, %v", name, spec, err)
						}
					}
					c.Release()
				} else if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
					s.Errorf("%s in %s: %v", name, spec, err)
				}
				cancel()
			}
		}
		loads := func() {
			for range 6 {
				s.Sleep(2)
				of, name, spec := target()
				ctx, cancel := context.WithCancel(context.Background())
				if s.OneIn(4) {
					time.AfterFunc(time.Duration(s.IntN(5))*time.Millisecond, cancel)
				}
				if a, _, err := server.LoadAhead(ctx, of, 1<<20, func(bool) {}); err == nil {
					s.Sleep(1)
					a.Forget()
				} else if !errors.Is(err, ErrAlready) && !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "canceled") {
					s.Errorf("%s in %s: %v", name, spec, err)
				}
				cancel()
			}
		}
		for range 2 {
			s.Go(reads)
			s.Go(reads)
			s.Go(loads)
		}
		s.Go(func() {
			for range 4 {
				s.Sleep(3)
				server.dropCaches()
			}
		})
		s.Wait()
		server.dropCaches()
		testenv.Must(s.T, server.Close())
		server.checkIdle(s.Errorf)
	})
}
