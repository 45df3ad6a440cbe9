package epoch

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// What takes the place of a sample that cannot be made is known when its batch was made. It is
// noted, for the lines of the batch's other files.

// black is the place in the list of what is no sample.
const black = -1

// excuse returns the sample of the list that takes the place of the i-th, which cannot be made, or
// black. try makes one.
func (w *View) excuse(i int, cause error, try func(j int) error) (instead int, err error) {
	s, l := w.of.o.Server, w.epoch.list
	if err := s.Excuse(l.culprit(i, cause), cause); err != nil {
		return black, err
	}
	if s.OnError() == serve.Black {
		return black, nil
	}
	if err := l.replaceable(s, i); err != nil {
		return black, fmt.Errorf("%w; no other sample takes its place: %w", cause, err)
	}
	from, n := l.alike(i)
	for k := range serve.Instead(transcode.Draw{Seed: w.path.Seed, Epoch: w.path.Epoch, Path: l.path(i)}, n) {
		j := from(k)
		if l.ids[j] == l.ids[i] {
			continue
		}
		err := try(j)
		if err != nil {
			if err = s.Excuse(l.culprit(j, err), err); err == nil {
				continue
			}
		}
		return j, err
	}
	return black, fmt.Errorf("%w; none of the samples that were tried in its place can be made either", cause)
}

// replaceable returns why no other sample may take the place of the i-th, or nil.
func (l *list) replaceable(s Server, i int) error {
	switch {
	case l.masks != nil:
		return nil // its target is its mask, which comes with it; the label is the same in any case
	case l.labels == nil:
		return s.Replaceable(l.path(i))
	case l.labels[i] == noClass:
		return errors.New("it has no label that another sample could have")
	}
	return nil
}

// alike are n samples with the label of the i-th: those of its directory, or of the rows of a table.
func (l *list) alike(i int) (from func(k int) int, n int) {
	if l.labels != nil {
		l.byLabelOnce.Do(func() {
			l.byLabel = map[int64][]uint32{}
			for j, label := range l.labels {
				l.byLabel[label] = append(l.byLabel[label], uint32(j))
			}
		})
		same := l.byLabel[l.labels[i]]
		return func(k int) int { return int(same[k]) }, len(same)
	}
	dir, begin, end := path.Dir(l.path(i)), i, i
	for begin > 0 && path.Dir(l.path(begin-1)) == dir {
		begin--
	}
	for end < len(l.ids) && path.Dir(l.path(end)) == dir {
		end++
	}
	return func(k int) int { return begin + k }, end - begin
}

// note notes what takes a place of a batch. The caller holds no lock.
func (w *View) note(batch, place, instead int) {
	m := w.of.maker
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.instead == nil {
		w.instead = map[[2]int]int{}
	}
	w.instead[[2]int{batch, place}] = instead
}

// settle makes sure that it is known what the places of a batch hold, and returns that: places in
// the list, or black.
func (w *View) settle(k int) ([]int, error) {
	m := w.of.maker
	m.mu.Lock()
	settled := w.settled[k]
	m.mu.Unlock()
	switch {
	case w.of.o.Server.OnError() == serve.Fail, settled:
	case w.fixed:
		b, err := m.open(m.ctx, batchKey{w, k})
		if err != nil {
			return nil, err
		}
		b.release()
	default:
		if err := w.settleList(k); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	samples := make([]int, w.share.size(k))
	for i := range samples {
		samples[i] = w.sample(k, i)
		if j, ok := w.instead[[2]int{k, i}]; ok {
			samples[i] = j
		}
	}
	return samples, nil
}

// settleList is settle for a batch that is a list of files.
func (w *View) settleList(k int) error {
	if w.of.o.Server.OnError() != serve.Replace {
		return nil
	}
	work, ctx := errgroup.WithContext(w.of.maker.ctx)
	work.SetLimit(w.of.o.Workers)
	for i := range w.share.size(k) {
		work.Go(func() error {
			try := func(j int) error {
				_, err := w.of.resolve(ctx, w.epoch.list.ids[j], w.pipelineOf(j), serve.Verified)
				return err
			}
			sample := w.sample(k, i)
			err := try(sample)
			if err == nil || ctx.Err() != nil {
				return err
			}
			instead, err := w.excuse(sample, err, try)
			if err != nil {
				return w.blame(sample, err)
			}
			w.note(k, i, instead)
			return nil
		})
	}
	err := work.Wait()
	if err == nil {
		w.of.maker.settle(w, k)
	}
	return err
}

// settle notes that it is known what a batch holds.
func (m *maker) settle(w *View, k int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.settleLocked(k)
}

func (w *View) settleLocked(k int) {
	if w.of.o.Server.OnError() == serve.Fail {
		return
	}
	if w.settled == nil {
		w.settled = map[int]bool{}
	}
	w.settled[k] = true
}

// blame names the sample of an error. A batch is no file of the dataset: whether that one has
// changed, or is not there, is no error of the batch's own name.
func (w *View) blame(i int, err error) error {
	if isRefused(err) || errors.Is(err, serve.ErrTooManyBad) {
		return err
	}
	return fmt.Errorf("sample %s: %v", w.epoch.list.path(i), err) //nolint:errorlint // it must not be taken for one of these
}
