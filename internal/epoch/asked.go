package epoch

import (
	"errors"
	"fmt"
	"time"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// ErrNoBatch says that samples of a view cannot be in one file, whichever they are.
var ErrNoBatch = errors.New("samples of this view cannot be read as one file")

// Asked returns the file of a batch of samples for which somebody asks, by the IDs that [Tree] gives them, made by p.
// The file holds as many of them as a quarter of the budget does, the first ones, and one at least. A sample that
// cannot be made is an error, and never black: who asks for it alone gets an error, too.
func (v *Views) Asked(p transcode.Pipeline, ids []uint32) (f *File, samples int, err error) {
	array, fixed := v.o.Registry.FixedArray(p)
	if fixed && v.isMask(v.tree.Path(ids[0])) {
		if array, err = v.maskArray(p, ids[:1]); err != nil {
			return nil, 0, err
		}
	}
	switch {
	case !fixed:
		return nil, 0, fmt.Errorf("%w: they are not arrays of one shape", ErrNoBatch)
	case v.o.Server.OnError() == serve.Replace:
		return nil, 0, fmt.Errorf("%w: the name of a bad sample leads to another one", ErrNoBatch)
	case headerSize+array.Bytes() > v.o.Budget:
		return nil, 0, fmt.Errorf("%w: each has %d MiB, more than --cache-bytes gives to batches", ErrNoBatch, array.Bytes()>>20)
	}
	n := min(len(ids), int(max(1, (v.o.Budget/4-headerSize)/array.Bytes())))
	w := &View{
		of: v, path: Path{World: 1, Batch: n, View: p.Path()}, pipeline: p, counters: v.o.Account.View(p.String()), array: array, fixed: true, asked: true,
		epoch: &epoch{list: &list{tree: v.tree, ids: ids[:n]}, order: upTo(n)},
		share: share{n: n, world: 1, batch: n},
	}
	w.ahead.looked = true // no epoch comes after it
	return &File{view: w, batch: 0}, n, nil
}

// Drop forgets what was made of a file that nobody reads any more.
func (f *File) Drop() {
	m := f.view.of.maker
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.batches[batchKey{f.view, f.batch}]
	if b == nil || b.pins > 0 || !b.complete() {
		return
	}
	delete(m.batches, b.batchKey)
	if b.data != nil {
		m.empty(b)
	}
	m.hire() // it made room
}

// kept reports whether a batch keeps its room, since somebody who has asked for it is about to read it. Otherwise readers
// whose batches are too many for the budget would take away each other's, again and again.
func (b *batch) kept() bool { return b.view.asked && !b.finished() && time.Since(b.ended) < stale }
