package views

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/transcode"
)

// A view is ready if a training takes its pictures as they are: it draws at random, or crops
// to a fixed size and ends with npy. Beside it stand plain files for which the loader does
// the same, by torchvision, and all batches are uint8. Other views are given the usual
// augmentation, so that they can be compared with what is ready for that.

// usualWork is the spec of the view that is ready for the usual augmentation.
const usualWork = "rrc224-hflip-npy"

// ready reports whether pictures of a view need nothing more.
func ready(p transcode.Pipeline) bool {
	steps := p.Steps()
	if p.Random() {
		return true
	}
	fixed := slices.ContainsFunc(steps, func(s transcode.Step) bool { return s.Kind.Name == "crop" })
	return fixed && steps[len(steps)-1].Kind.Name == "npy"
}

// works is what loaders do in a comparison.
type works struct {
	usual   string // key of the usual augmentation
	of      map[string]loader.Work
	subject []string // keys of what is compared, each once, in the order of the views
}

// worksOf finds out what loaders do for some views; nil where no view is ready.
func worksOf(r *transcode.Registry, views []string) (*works, error) {
	w := &works{of: map[string]loader.Work{}}
	some := false
	for _, spec := range append([]string{usualWork}, views...) {
		p, err := r.ParseRandom(spec)
		work, key, ok := loader.WorkOf(p)
		switch {
		case err == nil && p.Random() && !ok:
			return nil, fmt.Errorf("%s has steps that torchvision does not have, and so there is nothing to compare it with", spec)
		case err != nil, !ready(p), !ok: // a link, or a view for the usual augmentation
			key = w.usual
		case w.usual == "":
			w.usual, w.of[key] = key, work
			continue
		default:
			some, w.of[key] = true, work
		}
		if !slices.Contains(w.subject, key) {
			w.subject = append(w.subject, key)
		}
	}
	if !some {
		return nil, nil
	}
	return w, nil
}

// plain are the subjects of plain files: one for each work.
func (w *works) plain(dir string) (all []*subject) {
	for _, key := range w.subject {
		s := &subject{Row: Row{View: plainName, Control: true, Same: true, Work: key}, plain: dir}
		work := w.of[key]
		if s.work = &work; key != w.usual {
			s.View += ", " + key
			s.Same = false
		}
		all = append(all, s)
	}
	return all
}

// set says what the loader does with a view.
func (w *works) set(s *subject, p transcode.Pipeline) {
	work, key, ok := loader.WorkOf(p)
	if !ready(p) || !ok {
		work, key = w.of[w.usual], w.usual
	} else {
		s.Ready, work = true, loader.Work{Transforms: []loader.Transform{}}
	}
	s.work, s.Work = &work, key
}

// describe says what is compared with what.
func (w *works) describe(views []*subject) (lines []string) {
	for _, key := range w.subject {
		var alone []string
		for _, s := range views {
			if s.Ready && s.Work == key {
				alone = append(alone, s.View)
			}
		}
		what := "Plain files"
		if key == w.usual && slices.ContainsFunc(views, func(s *subject) bool { return !s.Ready && !s.Control }) {
			what += " and the other views"
		}
		line := fmt.Sprintf("%s get %s in the loader", what, w.of[key])
		if len(alone) > 0 {
			line += fmt.Sprintf("; of %s it loads arrays, and does nothing else", strings.Join(alone, ", "))
		}
		lines = append(lines, line+".")
	}
	return append(lines, "All batches are uint8, (height, width, channels).")
}

// ofEpochs says what epochs of random views are; nothing where there are none.
func ofEpochs(views []*subject) []string {
	i := slices.IndexFunc(views, func(s *subject) bool { return s.Random })
	if i < 0 {
		return nil
	}
	return []string{fmt.Sprintf("Each pass of %s is an epoch that nobody has read: from memory, too, its pictures are decoded and drawn.", views[i].View)}
}

// dir is the directory of a view for the next pass: that of a random view is another epoch
// each time.
func (s *subject) dir(r *runner, m *Mount) string {
	switch {
	case s.plain != "":
		return s.plain
	case s.Split != nil:
		return filepath.Join(m.Dir, s.Path)
	case !s.Random:
		return filepath.Join(m.Dir, s.View)
	}
	s.passes++
	return filepath.Join(m.Dir, transcode.DrawDir, fmt.Sprint(r.began.Unix()), fmt.Sprint(s.passes), s.View)
}
