package epoch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

var errSim = errors.New("the disk is at fault")

// TestSimulation: readers of epochs and of batches that they choose, with memory for few, who go away, while samples
// cannot be made and the mount ends. Nobody waits for ever, whoever gets bytes gets the right ones, and no memory stays
// taken.
func TestSimulation(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 7, "b": 6}, nil)
	const size = 8 * 8 * 3
	samples := map[[2]string][]byte{} // by epoch and path
	pipelines := map[string]transcode.Pipeline{}
	for _, epoch := range []string{"0", "1"} {
		v := f.view("7/" + epoch + "/1/0/3/rrc8-npy")
		pipelines[epoch] = v.pipeline
		for i := range v.epoch.list.ids {
			samples[[2]string{epoch, v.epoch.list.path(i)}] = f.sample(v.pipeline, v.epoch.list.path(i))
		}
	}
	directory, err := source.Open(f.root, source.Options{})
	testenv.Must(t, err)
	defer directory.Close()
	testenv.Simulate(t, 50, func(s *testenv.Sim) {
		slow, failing, busy := time.Duration(0), s.OneIn(2), 0
		if s.OneIn(3) {
			slow = time.Duration(1+s.IntN(4)) * 15 * time.Second
		}
		server := &told{Server: f.server}
		server.before = func(string) error { // it takes its time, and fails now and then
			server.mu.Lock()
			if busy++; busy > serve.Loading(2) {
				s.Errorf("%d samples are made at once", busy)
			}
			server.mu.Unlock()
			s.Sleep(3)
			time.Sleep(slow)
			server.mu.Lock()
			defer server.mu.Unlock()
			if busy--; failing && s.OneIn(10) {
				return errSim
			}
			return nil
		}
		views := New(Options{Registry: f.views.o.Registry, Server: server, Workers: 2})
		views.Use(&testTree{source: directory})
		views.maker.o.Budget = 3 * (128 + 3*size)
		views.o.Budget = 4 * views.maker.o.Budget / 3 // a batch that somebody chooses has three samples
		closes := s.OneIn(4)

		// look reads a file, or part of it, and compares it.
		look := func(epoch string, file *File, paths []string) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if s.OneIn(4) {
				time.AfterFunc(time.Duration(s.IntN(4))*10*time.Second, cancel)
			}
			for off := 0; int64(off) < file.Size(); {
				began := time.Now()
				p, err := file.Read(ctx, int64(off), 1+s.IntN(400))
				if waited := time.Since(began); waited > 10*time.Minute {
					s.Errorf("a reader waited for %v", waited)
				}
				if err != nil {
					known := errors.Is(err, context.Canceled) && (ctx.Err() != nil || closes) || failing && bytes.Contains([]byte(err.Error()), []byte(errSim.Error()))
					if !known {
						s.Errorf("reading at %d: %v", off, err)
					}
					return
				}
				s.Yield() // it is being sent
				for i, b := range p.Bytes {
					if at := off + i - headerSize; at >= 0 && b != samples[[2]string{epoch, paths[at/size]}][at%size] {
						s.Errorf("%s: byte %d of sample %d is wrong", epoch, at%size, at/size)
						break
					}
				}
				p.Release()
				off += len(p.Bytes)
				if s.OneIn(6) {
					return
				}
				s.Sleep(2)
			}
		}
		epochReader := func() {
			for _, epoch := range []string{"0", "1"} {
				path, err := ParsePath(split("7/" + epoch + "/1/0/3/rrc8-npy"))
				testenv.Must(s.T, err)
				v, err := views.Find(path, pipelines[epoch])
				testenv.Must(s.T, err)
				for k := 0; k < v.share.batches(); k++ {
					if s.OneIn(5) {
						k = s.IntN(v.share.batches())
					}
					file, err := v.File(batchName(k) + pixelsSuffix)
					testenv.Must(s.T, err)
					look(epoch, file, slices.Collect(file.Samples))
				}
			}
		}
		var dropped sync.Map
		chooser := func() {
			path, err := ParsePath(split("7/0/1/0/3/rrc8-npy"))
			testenv.Must(s.T, err)
			v, err := views.Find(path, pipelines["0"])
			testenv.Must(s.T, err)
			for range 4 {
				ids := []uint32{v.epoch.list.ids[s.IntN(13)], v.epoch.list.ids[s.IntN(13)], v.epoch.list.ids[s.IntN(13)]}
				file, _, err := views.Asked(pipelines["0"], ids)
				testenv.Must(s.T, err)
				look("0", file, slices.Collect(file.Samples))
				if s.OneIn(3) {
					return // it is killed
				}
				file.Drop()
				dropped.Store(file.view, true)
			}
		}
		for range 2 {
			s.Go(epochReader)
			s.Go(chooser)
		}
		if closes {
			s.Sleep(3)
			s.Go(func() { views.Close() })
		}
		s.Wait()
		if slow == 0 && !closes {
			time.Sleep(time.Second) // all that was begun is made
			m := views.maker
			m.mu.Lock()
			for key := range m.batches {
				if _, ok := dropped.Load(key.view); ok {
					s.Error("a batch that nobody can read keeps its memory")
				}
			}
			m.mu.Unlock()
		}
		time.Sleep(5 * time.Minute)
		if n := views.Stats().Bytes; n != 0 && !closes {
			s.Error(fmt.Sprint(n, " bytes are kept when nobody reads"))
		}
		if closes {
			views.Close()
		} else {
			ends(s.T, views)
		}
	})
}
