package l3gpu

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/l3gpu/kernel"
	"github.com/pipefs/pipefs/transcode/l3"
)

// run is one batch.
type run struct {
	b    *Backend
	e    *engine
	ctx  context.Context
	jobs []l3.Job

	under []underWay // pieces on the GPU, the oldest first
	rest  []int      // jobs for the processor
}

// underWay is a piece on the GPU.
type underWay struct {
	slot  *slot
	piece *piece
}

// decode decodes what the GPU can. The error says that the GPU failed; either way
// what it did not decode is in r.rest.
func (r *run) decode() error {
	var failure error
	for _, p := range r.pieces() {
		if failure == nil && r.ctx.Err() == nil {
			failure = r.start(p)
			continue
		}
		r.refuse(p)
	}
	for len(r.under) > 0 {
		if err := r.finish(); failure == nil {
			failure = err
		}
	}
	return failure
}

// pieces cuts the batch into what fits a slot. Pictures that no slot holds, or of a
// kind that the program does not know, go to the processor, and so do targets that
// it will refuse.
func (r *run) pieces() []*piece {
	var all []*piece
	var p *piece
	for i := range r.jobs {
		j := &r.jobs[i]
		s := j.Samples
		if j.Dst.Check(s.Width, s.Height, s.Mode.Channels(), s.Mode.Depth()/8) != nil {
			r.rest = append(r.rest, i)
			continue
		}
		if p != nil && p.add(i, j) {
			continue
		}
		p = &piece{room: r.e.size}
		if !p.add(i, j) {
			r.rest = append(r.rest, i)
			p = nil
			continue
		}
		all = append(all, p)
	}
	return all
}

// refuse gives a piece to the processor.
func (r *run) refuse(p *piece) {
	for i := range p.pictures {
		r.rest = append(r.rest, p.pictures[i].number)
	}
}

// start puts a piece on its way. It never waits for others while it holds a slot
// itself, so that no two wait for each other.
func (r *run) start(p *piece) error {
	var s *slot
	var err error
	for s == nil && err == nil {
		if len(r.under) == 0 {
			s, err = r.e.take(r.ctx)
		} else if s, err = r.e.tryTake(); s == nil && err == nil {
			err = r.finish()
		}
	}
	if err != nil {
		r.refuse(p)
		if r.ctx.Err() != nil {
			return nil // that is no failure
		}
		return err
	}
	err = r.stage(p, s)
	if err == nil {
		err = r.e.queue(p, s)
	}
	if err != nil {
		r.refuse(p)
		if lost := r.e.wait(s.stream.Wait); lost != nil {
			return lost
		}
		r.e.give(s)
		return err
	}
	r.under = append(r.under, underWay{s, p})
	return nil
}

// stage writes the tables and files of a piece to its slot.
func (r *run) stage(p *piece, s *slot) error {
	slot, at := s.host.Bytes(), s.memory.Address()
	p.arrange(at)
	parallel(r.workers(p), len(p.pictures), func(i int) { p.pictures[i].copyFile(slot) })
	return p.writeTables(slot, at)
}

// queue queues all that a piece takes.
func (e *engine) queue(p *piece, s *slot) error {
	if err := s.stream.Record(s.begin); err != nil {
		return err
	}
	at := s.memory.Address()
	statusesEnd := p.statuses + int64(len(p.pictures))*kernel.StatusLen
	if err := s.stream.Upload(at+uint64(p.records), s.host, p.records, statusesEnd-p.records); err != nil {
		return err
	}
	if err := e.program.launch(p, s); err != nil {
		return err
	}
	if err := s.stream.Download(s.host, p.statuses, at+uint64(p.statuses), p.end-p.statuses); err != nil {
		return err
	}
	return s.stream.Record(s.end)
}

// finish waits for the oldest piece, and puts its pictures where they belong. Those
// that the program refused are decoded again by the processor, whose error is the
// one that counts.
func (r *run) finish() error {
	u := r.under[0]
	r.under = r.under[1:]
	if err := r.e.wait(u.slot.end.Wait); err != nil {
		r.refuse(u.piece)
		return err
	}
	defer r.e.give(u.slot)
	if r.ctx.Err() != nil {
		return nil
	}
	if took, err := u.slot.end.Since(u.slot.begin); err == nil {
		r.b.busy.Add(int64(took))
	}
	slot := u.slot.host.Bytes()
	done := make([]bool, len(u.piece.pictures))
	parallel(r.workers(u.piece), len(done), func(i int) {
		q := &u.piece.pictures[i]
		done[i] = u.piece.decoded(slot, i)
		if done[i] {
			q.place.copyTo(q.job.Dst.Pix, slot[q.samples:][:q.place.size])
		}
	})
	for i, ok := range done {
		q := &u.piece.pictures[i]
		if !ok {
			r.rest = append(r.rest, q.number)
			continue
		}
		r.b.pictures.Add(1)
		r.b.bytes.Add(int64(q.place.size))
	}
	return nil
}

// workers is the number of goroutines for a piece: for little work more are not worth it.
func (r *run) workers(p *piece) int { return min(r.b.o.Workers, int(p.end>>18)+1) }

// parallel calls f for 0 to n-1, some at once.
func parallel(workers, n int, f func(int)) {
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	work.Wait()
}
