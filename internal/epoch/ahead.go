package epoch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// ahead is what is known of the readers of a view.
type ahead struct {
	asked []int // the batches that were asked for last
	left  int   // batches after the last one of these
	// next is the view of the next epoch, if its first batches are made ahead, too; looked: it
	// was looked for.
	next   *View
	looked bool
	far    int // up to this batch samples are fetched; see fetchUpTo
}

const (
	// maxAhead is how many batches are made ahead of a reader, where they are small enough:
	// all of them together take a quarter of the budget at most.
	maxAhead = 8
	// lately is how many batches a view remembers as asked for: more than there are workers
	// of a loader that read one each.
	lately = 128
)

// prepare has the batches made that come after one that somebody asks for, if it is the
// first one, or the one before it was asked for, too. Who reads at random gets nothing made
// that he may not ask for. The caller holds mu.
func (m *maker) prepare(key batchKey) {
	w, k := key.view, key.index
	follows := k == 0 || slices.Contains(w.ahead.asked, k-1)
	asked := append(w.ahead.asked, k)
	w.ahead.asked = asked[max(0, len(asked)-lately):]
	window := m.window(w)
	// What somebody who went elsewhere has left behind.
	for _, b := range slices.Clone(m.queue) {
		if b.view == w && !b.wanted && b.data == nil && (b.index < k-window || b.index > k+window) {
			m.unqueue(b)
			delete(m.batches, b.batchKey)
		}
	}
	if !follows {
		return
	}
	for i := k + 1; i <= k+window && i < w.share.batches(); i++ {
		m.batch(batchKey{w, i}).distance = i - k
	}
	m.fetchUpTo(w, k, window)
	w.ahead.left = w.share.batches() - 1 - k
	switch {
	case w.ahead.left >= window || m.ctx.Err() != nil:
	case w.ahead.next != nil:
		m.goOn(w)
	case !w.ahead.looked:
		w.ahead.looked = true
		m.ended.Go(func() {
			next, early := w.of.following(w)
			m.mu.Lock()
			defer m.mu.Unlock()
			if w.ahead.next = next; next != nil {
				next.early = early
				m.goOn(w)
				m.hire()
			}
		})
	}
}

// goOn makes the first batches of the epoch after one that ends soon. The caller holds mu.
func (m *maker) goOn(w *View) {
	next, left := w.ahead.next, w.ahead.left
	for i := 0; left+1+i <= m.window(w) && i < min(next.early, next.share.batches()); i++ {
		m.batch(batchKey{next, i}).distance = left + 1 + i
	}
	if m.o.Far > 0 {
		m.fetchUpTo(next, 0, m.window(next))
	}
}

// window is how many batches are made ahead of a reader of a view.
func (m *maker) window(w *View) int {
	return int(min(maxAhead, max(1, m.o.Budget/4/w.bytes(w.share.batch))))
}

// fetchUpTo has the samples of a batch fetched, and of batches after it: of as many as a window has, and
// where samples are far away of all that are made ahead, and of more; see Options.Far. The samples of a window are fetched in the order in
// which they lie on the disk; where there are no windows, those of a batch. The caller holds mu.
func (m *maker) fetchUpTo(w *View, k, made int) {
	each, next := 1, 0 // batches that are fetched in one order; batches after this one
	if w.path.Window > 0 {
		each = max(1, w.path.Window/(w.share.batch*w.share.world))
		next = each
	}
	if m.o.Far > 0 {
		next = max(next, made, (m.o.Far+w.share.batch-1)/w.share.batch)
	}
	a, begin, all := &w.ahead, k/each*each, w.share.batches()
	if a.far < begin || a.far > k+1+2*next { // somebody went elsewhere
		a.far = begin
	}
	from, to := a.far, min(k+1+next, all)
	if next == 0 || from >= to || m.ctx.Err() != nil {
		return
	}
	a.far = to
	m.ended.Go(func() {
		for begin := from / each * each; begin < to; begin += each {
			n := min(each, all-begin)
			samples := w.samplesOf(begin, begin+n)
			first, last := max(from-begin, 0), min(to-begin, n)
			w.fetch(m.ctx, samples[len(samples)*first/n:len(samples)*last/n])
		}
	})
}

// samplesOf are the samples of batches from one on to another, in the order of the list, in which
// they lie on the disk.
func (w *View) samplesOf(from, to int) (samples []int) {
	for k := from; k < min(to, w.share.batches()); k++ {
		for i := range w.share.size(k) {
			samples = append(samples, w.sample(k, i))
		}
	}
	slices.Sort(samples)
	return samples
}

// fetch has the system read samples.
func (w *View) fetch(ctx context.Context, samples []int) {
	s, l := w.of.o.Server, w.epoch.list
	fetch := func(id uint32, p transcode.Pipeline) {
		path := w.of.tree.Path(id)
		if a, err := s.Stat(path, false); err == nil && ctx.Err() == nil { // who makes it says what is wrong
			s.Fetch(ctx, serve.Key(id), serve.File{Path: path, Identity: a.Identity}, p)
		}
	}
	for _, i := range samples {
		fetch(l.ids[i], w.pipelineOf(i))
		if w.masked {
			fetch(l.masks[i], w.pipelineOf(i))
		}
	}
}

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
		of: v, path: Path{View: p.Path()}, pipeline: p, counters: v.o.Account.View(p.String()), array: array, fixed: true, asked: true,
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
	f.view.dropped = true
	if b := m.batches[batchKey{f.view, f.batch}]; b != nil {
		m.discard(b)
		m.hire() // it may have freed memory
	}
}

// kept reports whether a batch keeps its memory, since somebody who has asked for it is about to read it. Otherwise readers
// whose batches are too many for the budget would take away each other's, again and again.
func (b *batch) kept() bool {
	return b.view.asked && !b.view.dropped && !b.finished() && time.Since(b.ended) < stale
}
