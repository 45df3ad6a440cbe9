package epoch

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// Samples may have masks, by the pairs that the mount was given. A batch then holds two arrays, one
// behind the other, which are two files: both are made at once, so that a sample takes the place of
// another one together with its mask.

// isMask reports whether a file is the mask of another sample: it is no sample of an epoch.
func (v *Views) isMask(path string) bool { return len(v.o.Roles.PicturesOf(path)) > 0 }

// findMasks finds the masks of the samples of a list. If some have one, all have to.
func (v *Views) findMasks(l *list) {
	if len(v.o.Roles.Pairs) == 0 {
		return
	}
	rows, without, example := &rows{table: "--pair"}, 0, ""
	for i := range l.ids {
		path := l.path(i)
		mask := v.o.Roles.MaskOf(path)
		rows.add(mask)
		if mask == "" {
			without++
			example = path
		}
	}
	if without == rows.len() {
		return
	}
	if without > 0 {
		l.unmasked = fmt.Errorf("%d of %d samples have no mask, such as %s: no --pair is about them", without, rows.len(), example)
		return
	}
	masks, missing, lost, err := find(l.tree, v.o.Registry, "", rows)
	if lost > 0 {
		err = fmt.Errorf("%d of %d samples have no mask, such as %s: there is no %s. A list of samples can name those that have one", lost, rows.len(), l.path(missing), rows.path(missing))
	}
	for i := 0; err == nil && i < rows.len(); i++ {
		err = v.o.Server.PairedWith(rows.path(i), l.path(i))
	}
	if l.unmasked = err; err == nil {
		l.masks = masks
	}
}

// mostLooked is how many masks are looked at before one tells what they hold.
const mostLooked = 64

// maskArray is what the first of some masks is in a view: all have to be the same.
func (v *Views) maskArray(p transcode.Pipeline, masks []uint32) (a transcode.Array, err error) {
	for _, id := range masks[:min(len(masks), mostLooked)] {
		var h *serve.Handle
		if h, err = v.resolve(v.maker.ctx, id, p, serve.Planned); err == nil {
			var ok bool
			if a, ok = h.Plan().Array(); ok {
				return a, nil
			}
			err = fmt.Errorf("%s leaves the mask %s as it is", p, v.tree.Path(id))
		}
	}
	return a, err
}

// findMask finds out what the masks of a view hold. Its errors are those of their files.
func (w *View) findMask() {
	l := w.epoch.list
	if w.fixed && l.masks != nil {
		w.mask, w.unmasked = w.of.maskArray(w.pipeline, l.masks)
		w.masked = w.unmasked == nil
	} else if w.fixed {
		w.unmasked = l.unmasked
	}
}

// makeBoth writes the values of one sample, and those of its mask.
func (w *View) makeBoth(ctx context.Context, i int, pixels, mask []byte) error {
	l := w.epoch.list
	err := w.make(ctx, l.ids[i], w.pipelineOf(i), w.array, pixels)
	if err == nil && w.masked {
		if err = w.make(ctx, l.masks[i], w.pipelineOf(i), w.mask, mask); err != nil {
			path := w.of.tree.Path(l.masks[i])
			err = &maskError{path, fmt.Errorf("its mask %s: %w", path, err)}
		}
	}
	return err
}

// maskError is the error of a mask.
type maskError struct {
	path string
	error
}

func (e *maskError) Unwrap() error { return e.error }

// culprit is the path of the file because of which a sample cannot be made.
func (l *list) culprit(i int, cause error) string {
	if e := (*maskError)(nil); errors.As(cause, &e) {
		return e.path
	}
	return l.path(i)
}
