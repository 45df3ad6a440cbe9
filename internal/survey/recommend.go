package survey

import (
	"context"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// The views that suit most trainings: of each line the first that suits is recommended.
var (
	ResizedViews = []string{"resize256-bmp-own", "resize256-bmp", "resize256-jpeg90-own", "resize256-jpeg90"}
	ExactViews   = []string{"bmp-own", "bmp"}
)

// What [Look] looks at.
const (
	FirstSamples = 256             // whose headers it reads
	FirstFetched = 8               // the same in a bucket, where each takes a request
	firstPixels  = 64              // of these, whose pixels tell whether they may be masks
	Patience     = 2 * time.Second // of a person who waits for the mount
)

// Peek is what decides which views suit a dataset.
type Peek struct {
	Looked int   `json:"looked_at"`
	Turned int   `json:"orientation"`  // samples that have an EXIF orientation other than 1
	Modes  int   `json:"other_modes"`  // samples that are not RGB
	Masks  bool  `json:"masks_beside"` // that no option marks
	Boxes  Boxes `json:"boxes"`
	// Recommended are views to train from, the best first, whatever the loader.
	Recommended []string `json:"recommended"`
	// spared: what a view that resizes makes of samples that may be masks. hurried: there was
	// no time to look at all.
	spared  serve.Spared
	hurried bool
	// refuses reports whether a view refuses a directory; nil if none does.
	refuses func(transcode.Pipeline) bool
}

func (k *Peek) add(seen mountd.Sample, roles transcode.Roles) {
	k.Looked++
	info, role := seen.Info, roles.Of(seen.Path)
	if info.Orientation > 1 {
		k.Turned++
	}
	if info.Mode != transcode.ModeRGB && info.Mode != transcode.ModeNone && role != transcode.Mask {
		k.Modes++
		k.Masks = k.Masks || role == transcode.Auto && serve.IsAnnotationDirectory(path.Base(path.Dir(seen.Path)))
	}
}

// Look looks at a few of the samples of a tree, until ctx ends.
func Look(ctx context.Context, s *mountd.Source, l mountd.Listing, roles transcode.Roles, most int) *Peek {
	k, names := &Peek{}, loader.Evenly(l.Samples, most)
	var mu sync.Mutex
	// What is not seen before ctx ends does not count.
	_ = s.LookAll(ctx, names, func(seen mountd.Sample) {
		mu.Lock()
		defer mu.Unlock()
		k.add(seen, roles)
	})
	k.search(ctx, s, l.Annotations, names, roles)
	return k
}

// search finds boxes and masks beside samples, and which views refuse their directories. Then it
// can recommend.
func (k *Peek) search(ctx context.Context, s *mountd.Source, annotations, samples []string, roles transcode.Roles) {
	k.Boxes = findBoxes(ctx, s.Server, annotations)
	if p, err := s.Registry.Parse(ResizedViews[0]); err == nil {
		k.spared = s.Server.Spares(ctx, p, loader.Evenly(samples, firstPixels))
		k.hurried = ctx.Err() != nil
	}
	refused := func(p transcode.Pipeline) []*serve.Refusal {
		found, _ := s.Server.Refusals(ctx, samples, []transcode.Pipeline{p}) // in time
		return found
	}
	k.refuses = func(p transcode.Pipeline) bool { return len(refused(p)) > 0 }
	// A random view refuses directories with annotations, and names one of these.
	random, _ := s.Registry.ParseRandom("randcrop224-npy")
	if found := refused(random); len(found) > 0 && found[0].Beside != "" {
		switch beside := found[0].Beside; s.Server.Annotation(ctx, beside) {
		case serve.AnnotationPixels:
			k.Boxes.Pixels = append(k.Boxes.Pixels, beside)
		case serve.AnnotationRelative:
			k.Boxes.Relative = append(k.Boxes.Relative, beside)
		default:
			k.Masks = k.Masks || roles.Of(beside) != transcode.Mask
		}
	}
	for _, line := range [][]string{ResizedViews, ExactViews} {
		if view := k.Suitable(s.Registry, loader.Reading{Turned: k.Turned}, line...); view != "" && len(samples) > 0 {
			k.Recommended = append(k.Recommended, view)
		}
	}
	if k.Recommended == nil {
		k.Recommended = []string{transcode.Original}
	}
}

// spoils reports whether masks or boxes do not fit the pictures of a view.
func (k *Peek) spoils(p transcode.Pipeline) bool {
	return (k.Masks || len(k.Boxes.Pixels) > 0) && moves(p, transcode.Resampling, transcode.Geometric) ||
		len(k.Boxes.Relative) > 0 && moves(p, transcode.Geometric)
}

// moves reports whether a step has one of the effects. That upright turns a picture is as those
// saw it who drew boxes in it.
func moves(p transcode.Pipeline, wrong ...transcode.Effect) bool {
	return slices.ContainsFunc(p.Steps(), func(s transcode.Step) bool {
		return slices.Contains(wrong, s.Kind.Effect) && s.Kind.Name != "upright"
	})
}

// Suitable is the first of some views, if need be with steps in front, that the loader reads
// and that fits the dataset; empty if none does.
func (k *Peek) Suitable(registry *transcode.Registry, r loader.Reading, views ...string) string {
	for _, view := range views {
		plain, err := registry.Parse(view)
		if err != nil || k.refuses != nil && k.refuses(plain) {
			continue // whatever is in front, it would blend masks
		}
		fronts := []string{""}
		if r.Turned > 0 {
			fronts = []string{"upright-", ""}
		}
		switch {
		case !plain.Blends():
		case k.spared.Samples > 0:
			continue // it would show samples of several kinds; the user has to say what they are
		case k.Modes > 0 && !k.Masks && !k.hurried:
			// Pictures of all modes get three channels, as ImageFolder's convert('RGB') gives them.
			fronts = append([]string{"rgb-" + fronts[0]}, fronts...)
		}
		for _, front := range fronts {
			if p, err := registry.Parse(front + view); err == nil && r.Cannot(p) == "" && !k.spoils(p) {
				return p.String()
			}
		}
	}
	return ""
}

// NoteTurned tells how many samples have an EXIF orientation.
func (k *Peek) NoteTurned(note func(string, ...any)) {
	if k.Turned > 0 {
		note("%s, of %d looked at: views that end in bmp, ppm or npy drop it, and loaders that apply it (Hugging Face, OpenCV, Ultralytics, DALI) get these pictures lying on their side; a view with upright in front turns them, as in upright-bmp-own. A loader that ignores the tag (ImageFolder) gets what it gets from the dataset in a view without upright",
			human.Plural(k.Turned, "sample has an EXIF orientation", "samples have an EXIF orientation"), k.Looked)
	}
}

// NoteExact tells why no view that resizes is recommended.
func (k *Peek) NoteExact(note func(string, ...any)) {
	switch {
	case len(k.Boxes.Pixels) > 0:
		note("boxes in %s count pixels of the dataset: they are right in views of full size only", k.Boxes.Pixels[0])
	case k.Masks:
		note("masks lie beside the pictures: --masks GLOB says which files they are, and gives them the size of their pictures")
	}
	if text := k.spared.String(); text != "" {
		note("%s", text)
	}
}

// Accept takes it that no view refuses a directory: somebody has said what the files are.
func (k *Peek) Accept() { k.refuses = nil }
