package survey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// Tally counts what views do to the samples of a tree.
type Tally struct {
	of     *mountd.Source
	roles  transcode.Roles
	Listed mountd.Listing `json:"-"`
	mu     sync.Mutex

	Peek

	example *mountd.Sample // of the unread, the first by path
	Samples int            `json:"samples"`
	Others  int            `json:"other_files"`
	Faults  int            `json:"faults"`
	Unread  int            `json:"unread"` // unchanged in every view: no codec reads them
	Views   []*viewTally   `json:"views"`
	// Refused are the directories that views refuse.
	Refused []*serve.Refusal `json:"refused,omitempty"`
}

// viewTally is the part of one view.
type viewTally struct {
	Pipeline  transcode.Pipeline `json:"-"`
	View      string             `json:"view"`
	Ext       string             `json:"extension,omitempty"`
	Changed   int                `json:"changed"`
	Unchanged int                `json:"unchanged"`
	Spared    serve.Spared       `json:"spared"`              // may be masks; neither changed nor unchanged
	Missing   int64              `json:"missing,omitempty"`   // not shown
	Reencoded int64              `json:"reencoded,omitempty"` // of those changed
	Bytes     int64              `json:"bytes"`
	Exact     bool               `json:"bytes_exact"`
	Example   string             `json:"example,omitempty"`
	// Validation is the view for validation that belongs to a random view.
	Validation string `json:"validation,omitempty"`

	sample string // that of Example, its own path
	shows  bool   // changed
}

// Options of a count.
type Options struct {
	Views    []string // specs; none are the usual ones, of which those are left out that do not fit
	All      bool     // look at every sample
	Roles    transcode.Roles
	Unlisted func(error) // is told of directories that cannot be listed
	Stderr   io.Writer   // shows the progress
}

// MostLooked is the number of samples that are looked at if there are many more.
const MostLooked = 20_000

// Count counts what views do to the samples of a source.
func Count(ctx context.Context, s *mountd.Source, o Options) (*Tally, error) {
	t := &Tally{of: s, roles: o.Roles}
	specs := o.Views
	if len(specs) == 0 {
		specs = mountd.UsualViews(s.Registry)
	}
	for _, spec := range mountd.Unique(specs) {
		p, err := s.Registry.ParsePath(spec)
		if err != nil {
			return nil, err
		}
		v := &viewTally{Pipeline: p, View: spec, Exact: true, Spared: s.Server.NewSpared(p)}
		if p.Random() {
			v.Validation = p.Validation()
		}
		t.Views = append(t.Views, v)
	}
	found, err := t.count(ctx, o)
	if err != nil {
		return nil, err
	}
	t.search(ctx, s, found, t.Listed.Samples, o.Roles)
	if t.Refused, err = s.Server.Refusals(ctx, t.Listed.Samples, t.pipelines()); err != nil {
		return nil, err
	}
	if len(o.Views) == 0 {
		t.dropUnfit()
	}
	return t, t.name()
}

// count looks at the samples, and returns files that may have boxes.
func (t *Tally) count(ctx context.Context, o Options) ([]string, error) {
	l, err := t.of.List(ctx, o.Unlisted)
	if err != nil {
		return nil, err
	}
	t.Samples, t.Others, t.Listed = len(l.Samples), l.Others, l
	names := l.Samples
	if !o.All {
		names = loader.Evenly(names, MostLooked)
	}
	bar := human.NewProgress(o.Stderr, "looking at samples", len(names))
	defer bar.Done()
	if err := t.of.LookAll(ctx, names, func(seen mountd.Sample) {
		plans, errs := make([]transcode.Plan, len(t.Views)), make([]error, len(t.Views))
		for i, v := range t.Views {
			// Of a file that goes meanwhile, or whose pixels are broken, there is the plan of the header.
			a, _ := t.of.Server.Stat(seen.Path, false)
			plans[i], errs[i] = t.of.Server.Fit(ctx, serve.File{Path: seen.Path, Identity: a.Identity}, v.Pipeline, seen.Info, seen.Stored, serve.Planned)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		bar.Add(1)
		t.add(seen, plans, errs)
	}); err != nil {
		return nil, err
	}
	if t.Looked < t.Samples {
		for _, v := range t.Views {
			v.Exact = false
		}
	}
	return l.Annotations, nil
}

func (t *Tally) add(seen mountd.Sample, plans []transcode.Plan, errs []error) {
	t.Peek.add(seen, t.roles)
	if seen.Fault != "" {
		t.Faults++
		return
	}
	if seen.Unread != "" {
		t.Unread++
		if t.example == nil || seen.Path < t.example.Path {
			t.example = &seen
		}
	}
	for i, v := range t.Views {
		switch t.of.Server.Shows(v.Pipeline, seen.Stored) {
		case serve.NotShown:
			v.Missing++
			v.Exact = false
			continue
		case serve.Reencoded:
			v.Reencoded++
		}
		plan := plans[i]
		changed := t.holds(v, plan, seen) && !plan.Unchanged()
		switch spared := v.Spared.Add(seen.Path, plan, errs[i]); {
		case spared:
		case changed:
			v.Changed++
		default:
			v.Unchanged++
		}
		if changed {
			if size, ok := sizeIn(plan, seen); ok {
				v.Bytes += size
			} else {
				v.Exact = false
			}
		} else {
			v.Bytes += seen.Size
		}
		// the first one by name, preferring those that the view changes
		if v.sample == "" || changed && !v.shows || changed == v.shows && seen.Path < v.sample {
			v.sample, v.shows = seen.Path, changed
		}
	}
}

// name finds out under which names the views list their examples.
func (t *Tally) name() error {
	files, err := t.of.Files()
	if err != nil {
		return err
	}
	for _, v := range t.Views {
		if v.sample == "" {
			continue
		}
		listed, err := files.Listed(v.Pipeline, v.sample)
		if errors.Is(err, fs.ErrNotExist) { // it went meanwhile
			listed = v.sample
		} else if err != nil {
			return fmt.Errorf("%s: %w", v.sample, err)
		}
		v.Example, v.Ext = path.Join(v.View, listed), strings.TrimPrefix(path.Ext(listed), ".")
	}
	return nil
}

func (t *Tally) pipelines() (all []transcode.Pipeline) {
	for _, v := range t.Views {
		all = append(all, v.Pipeline)
	}
	return all
}

// holds reports whether a view shows a sample as its steps make it, as far as that
// depends on what is stored.
func (t *Tally) holds(v *viewTally, plan transcode.Plan, seen mountd.Sample) bool {
	return !v.Pipeline.Stored() || seen.Stored != nil && !plan.Unchanged() && t.of.Store.Holds(seen.Stored, plan.Key())
}

// sizeIn is the size of a sample in a view, if it is known without making it.
func sizeIn(plan transcode.Plan, seen mountd.Sample) (int64, bool) {
	if size, ok := plan.Size(); ok {
		return size, true
	}
	if seen.Stored == nil {
		return 0, false
	}
	key, level := plan.Key(), 0
	if head, ok := plan.Head(); ok && plan.Len() == 1 {
		key, level = transcode.SplitKey(head.Kind), head.Arg
	}
	if rep := seen.Stored.Representation(key); rep != nil && rep.Size(level) >= 0 {
		return rep.Size(level), true
	}
	return 0, false
}

// gaps are what the views lack of the samples that were looked at.
func (t *Tally) gaps() *mountd.Gaps {
	g := &mountd.Gaps{}
	for _, v := range t.Views {
		missing := serve.Missing{Samples: v.Missing, Reencoded: v.Reencoded, Of: int64(t.Looked - t.Faults)}
		g.Add(v.View, missing)
	}
	return g
}

// dropUnfit drops the views for loaders that do not fit the dataset: boxes or masks would not fit
// their pictures, or they would not change, or not show, all samples.
func (t *Tally) dropUnfit() {
	dropped := map[string]bool{}
	for _, v := range t.Views {
		refuses := slices.ContainsFunc(t.Refused, func(e *serve.Refusal) bool { return e.View == v.Pipeline.String() })
		if slices.Contains(mountd.LoaderViews, v.View) && (refuses || t.spoils(v.Pipeline) || v.Spared.Samples > 0 || v.Missing > 0) {
			dropped[v.Pipeline.String()] = true
		}
	}
	t.Views = slices.DeleteFunc(t.Views, func(v *viewTally) bool { return dropped[v.Pipeline.String()] })
	t.Refused = slices.DeleteFunc(t.Refused, func(e *serve.Refusal) bool { return dropped[e.View] })
}

// Annotation files say where things are in pictures. They are shown as they are in
// every view, so that what they say is not true of pictures that were scaled or cut.

// Boxes are annotation files, by what their coordinates count.
type Boxes struct {
	Pixels   []string `json:"pixels,omitempty"`   // of the source
	Relative []string `json:"relative,omitempty"` // to its sides, from 0 to 1
}

// findBoxes finds out which of the files have boxes.
func findBoxes(ctx context.Context, server *serve.Server, files []string) (b Boxes) {
	for _, name := range slices.Sorted(slices.Values(files)) {
		switch server.Annotation(ctx, name) {
		case serve.AnnotationPixels:
			b.Pixels = append(b.Pixels, name)
		case serve.AnnotationRelative:
			b.Relative = append(b.Relative, name)
		}
	}
	return b
}

// drawsBoxes reports whether a random view refuses directories because of boxes.
func (t *Tally) drawsBoxes(v *viewTally) bool {
	return slices.ContainsFunc(t.Refused, func(r *serve.Refusal) bool { return r.Beside != "" && r.View == v.Pipeline.String() })
}

// noteBoxes tells in which views boxes are not where their files say.
func (t *Tally) noteBoxes(note func(format string, args ...any)) {
	tell := func(files []string, what string, wrong ...transcode.Effect) {
		var views []string
		for _, v := range t.Views {
			if t.drawsBoxes(v) {
				continue // that is said of the directories that it refuses
			}
			if moves(v.Pipeline, wrong...) {
				views = append(views, v.View)
			}
		}
		if len(files) > 0 && len(views) > 0 {
			note("boxes in %s %s: they are wrong in %s, unless the loader adapts them", files[0], what, strings.Join(views, ", "))
		}
	}
	tell(t.Boxes.Pixels, "count pixels of the source", transcode.Resampling, transcode.Geometric)
	tell(t.Boxes.Relative, "are relative to the whole picture", transcode.Geometric) // cut or turned
}

// trainingLines are what torchvision calls steps that draw.
var trainingLines = map[string]string{
	"rrc": "RandomResizedCrop", "randcrop": "RandomCrop", "hflip": "RandomHorizontalFlip",
	"trivialaugment": "TrivialAugmentWide", "randaug": "RandAugment", "autoaugment": "AutoAugment", "colorjitter": "ColorJitter",
	"randgrey": "RandomGrayscale", "blur": "GaussianBlur", "solarize": "RandomSolarize", "erase": "RandomErasing",
}

// replaced are the lines of a training that a random view takes over.
func replaced(p transcode.Pipeline) string {
	var lines []string
	for _, s := range p.Steps() {
		if line := trainingLines[s.Kind.Name]; line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " and ")
}

// noteRandom says how random views are read, and what a training leaves out then.
func (t *Tally) noteRandom(note func(format string, args ...any)) {
	i := slices.IndexFunc(t.Views, func(v *viewTally) bool { return v.Validation != "" })
	if i < 0 {
		return
	}
	v := t.Views[i]
	spec := v.Pipeline.String()
	note("%s draws at random: it is read at MNT/%s/SEED/EPOCH/%[1]s, in Python by pipefs.RandomView. Take %[3]s out of the training, and read %[4]s for validation", spec, transcode.DrawDir, replaced(v.Pipeline), v.Validation)
}
