package serve

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// keepBytes bounds the results of readers that wait to be written to the overlay.
const keepBytes = 64 << 20

// keeper writes to the overlay what readers had to make, after they were answered:
// a disk may take long for that. What does not fit into its queue is not kept.
type keeper struct {
	p    *Server
	done sync.WaitGroup

	mu    sync.Mutex
	ready *sync.Cond
	queue []keeping
	bytes int64 // of queue, and of what is being written
	begun bool
	ended bool
	told  bool // that something does not fit
}

// keeping is a result that is held until it is written.
type keeping struct {
	job  *job
	made *product
}

func (k keeping) size() int64 { return int64(len(k.made.split.Data) + len(k.made.split.Tail)) }

func newKeeper(p *Server) *keeper {
	k := &keeper{p: p}
	k.ready = sync.NewCond(&k.mu)
	return k
}

// offer takes a result that a reader made. It never waits.
func (k *keeper) offer(j *job, made *product) {
	if k.p.o.Overlay == nil {
		return
	}
	next := keeping{j, made}
	k.mu.Lock()
	defer k.mu.Unlock()
	// One that is larger than the queue may be the only one in it.
	if k.ended || k.bytes > 0 && k.bytes+next.size() > keepBytes {
		k.p.stats.unkept.Add(1)
		if !k.ended && !k.told {
			k.told = true
			k.p.log.Info("results are made faster than the disk keeps them; what is not kept is made again")
		}
		return
	}
	if !k.begun {
		k.begun = true
		k.done.Go(k.run)
	}
	made.hold()
	k.queue = append(k.queue, next)
	k.bytes += next.size()
	k.ready.Signal()
}

func (k *keeper) run() {
	for {
		k.mu.Lock()
		for len(k.queue) == 0 && !k.ended {
			k.ready.Wait()
		}
		if len(k.queue) == 0 {
			k.mu.Unlock()
			return
		}
		next := k.queue[0]
		k.queue = k.queue[1:]
		k.mu.Unlock()
		_ = k.p.keep(next.job, next.made.split) // it has been told
		size := next.size()
		next.made.release()
		k.mu.Lock()
		k.bytes -= size
		k.mu.Unlock()
	}
}

// close waits until everything in the queue is written.
func (k *keeper) close() {
	k.mu.Lock()
	k.ended = true
	k.ready.Broadcast()
	k.mu.Unlock()
	k.done.Wait()
}

// keeps reports whether a plan's result is worth a place in the overlay: where
// its size cannot be known without making it, and where it is smaller than what
// it was made from. An original is neither.
func (p *Server) keeps(plan transcode.Plan) bool {
	if plan.Unchanged() {
		return false
	}
	if _, closed := plan.Size(); !closed {
		return true
	}
	return plan.Shrinks()
}

// Current reports whether what the overlay keeps of a version of a sample under a key can
// still be asked for. A sample that cannot be looked at may come back.
func (p *Server) Current(path string, src store.Identity, key string) bool {
	if !p.o.Registry.Makes(key) {
		return false
	}
	a, err := p.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return store.Identity(a.Identity) == src
}

// keep puts a result into the overlay. Failing to is no error of the sample: it is
// logged, and returned to who can try again.
func (p *Server) keep(j *job, s transcode.Split) error {
	if p.o.Overlay == nil {
		return nil
	}
	err := p.o.Overlay.Put(j.file.Path, store.Identity(j.file.Identity), j.plan.Info(), j.plan.Key(), s)
	switch {
	case err == nil:
		p.stats.kept.Add(1)
		// Near the limit what is small fits now and then.
		if since := p.full.Load(); since != 0 && time.Now().UnixNano()-since >= int64(p.background.retry) && p.full.CompareAndSwap(since, 0) {
			p.log.Info("there is room again; results are kept")
		}
	case !errors.Is(err, store.ErrFull):
		p.log.Warn("cannot keep what was produced; it will be made again", "sample", j.file.Path, "key", j.plan.Key(), "cause", err)
	case p.full.CompareAndSwap(0, time.Now().UnixNano()):
		why := "the limit is reached (pipefs cache limit, --store-max)"
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			why = "the disk is full"
		}
		p.log.Warn("nothing more is kept until there is room: "+why+"; what is not kept is made at each read", "cause", err)
	}
	return err
}
