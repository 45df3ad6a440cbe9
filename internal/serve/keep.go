package serve

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// keepBytes bounds the results of readers that wait to be written to the overlay, and so does
// a quarter of what may be in work.
const keepBytes = 64 << 20

// writeBytes is what a write that waits holds besides the result.
const writeBytes = 8 << 10

// keeper writes to the overlay what readers had to make, after they were answered:
// a disk may take long for that. What does not fit into memory meanwhile is not kept.
type keeper struct {
	server *Server
	limit  int64 // bytes of results that are held until they are written
	budget *semaphore.Weighted
	writes sync.WaitGroup
	one    sync.Mutex // held by the write that is under way

	mu    sync.Mutex
	ended bool
	told  bool // that something does not fit

	full  atomic.Int64  // since when nothing more can be kept, in ns since 1970; else 0
	retry time.Duration // how long to wait for space in the overlay
	empty func() bool   // whether the tree has no file, the first time that it is asked
}

func newKeeper(s *Server) *keeper {
	k := &keeper{server: s, limit: min(keepBytes, s.o.WorkBytes/4), retry: 30 * time.Second}
	k.budget = semaphore.NewWeighted(k.limit)
	k.empty = sync.OnceValue(func() bool {
		names, err := s.o.Source.List("")
		return err != nil || len(names) == 0
	})
	return k
}

// offer takes a result that a reader made. It never waits.
func (k *keeper) offer(h *Handle, made *result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// One that is larger than all may be held alone.
	size := min(writeBytes+int64(len(made.split.Data)+len(made.split.Tail)), k.limit)
	if k.ended || !k.budget.TryAcquire(size) {
		k.server.stats.unkept.Add(1)
		if !k.ended && !k.told {
			k.told = true
			k.server.log.Info("results are made faster than the disk keeps them; what is not kept is made again")
		}
		return
	}
	made.hold()
	k.writes.Go(func() {
		k.one.Lock()
		_ = k.keep(h, made.split) // it has been told
		k.one.Unlock()
		made.release()
		k.budget.Release(size)
	})
}

// close waits until everything that was taken is written.
func (k *keeper) close() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.writes.Wait()
}

// worthKeeping reports whether the result is worth a place in the overlay: its size cannot be
// known without making it, or it is smaller than what it was made from. An original, a random view
// and a brief one are never kept.
func (h *Handle) worthKeeping() bool {
	if !h.server.Keeps() || h.Unchanged() || h.plan.Random() || h.brief {
		return false
	}
	if _, closed := h.plan.Size(); !closed {
		return true
	}
	return h.plan.Shrinks()
}

// Current reports whether what the overlay keeps of a version of a sample under a key can
// still be asked for. A sample that cannot be looked at may come back, and so may all of an
// empty tree: its file system may not be mounted.
func (s *Server) Current(path string, src store.Identity, key string) bool {
	if !s.o.Registry.Makes(key) {
		return false
	}
	a, err := s.o.Source.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.keeper.empty()
	}
	return err != nil || storedAs(a.Identity) == src
}

// keep puts a result into the overlay. Failing to is no error of the sample: it is
// logged, and returned to a caller that can try again.
func (k *keeper) keep(h *Handle, made transcode.Split) error {
	s := k.server
	err := s.o.Overlay.Put(h.file.Path, storedAs(h.file.Identity), h.plan.Info(), h.result, made)
	switch {
	case err == nil:
		s.stats.kept.Add(1)
		// Near the limit what is small fits now and then.
		if since := k.full.Load(); since != 0 && time.Now().UnixNano()-since >= int64(k.retry) && k.full.CompareAndSwap(since, 0) {
			s.log.Info("there is space again; results are kept")
		}
	case !errors.Is(err, store.ErrFull):
		s.log.Warn("cannot keep what was produced; it will be made again", "sample", h.file.Path, "key", h.result, "cause", err)
	case k.full.CompareAndSwap(0, time.Now().UnixNano()):
		why := "the limit is reached (pipefs cache limit, --store-max)"
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			why = "the disk is full"
		}
		s.log.Warn("nothing more is kept until there is space: "+why+"; what is not kept is made at each read", "cause", err)
	}
	return err
}

// Keeps reports whether results are kept at all.
func (s *Server) Keeps() bool { return s.o.Overlay != nil }

// Prepare makes a file ahead of time and keeps it, if that is worth it and
// was not done before. It works with the places and memory of the background, gives way
// to a reader who wants the same, and waits for space in the overlay.
func (s *Server) Prepare(ctx context.Context, f File, v transcode.Pipeline) (kept bool, err error) {
	h, err := s.resolve(ctx, 0, f, v, Planned)
	if err != nil || !h.worthKeeping() {
		return false, err
	}
	from := s.candidates(h)
	if len(from) == 0 || from.whole(h) != nil {
		return false, nil
	}
	best := from.longest(h)
	if h.work()+best.Bytes > s.idlers.bytes {
		return false, nil // too large to be made beside the readers' work
	}
	made, err := s.make(ctx, s.idlers, h, best)
	if err != nil {
		return false, err
	}
	defer func() {
		// Its memory belongs to the readers.
		s.forget(made)
		made.release()
	}()
	for ctx.Err() == nil {
		if err = s.keeper.keep(h, made.split); !errors.Is(err, store.ErrFull) {
			return err == nil, nil // what went wrong has been told
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.keeper.retry):
		}
	}
	return false, ctx.Err()
}
