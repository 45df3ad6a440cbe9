package serve

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// picture is what the pixels of a version of a file told.
type picture struct {
	identity source.Identity
	surely   bool
}

const (
	// maxPictures bounds the samples whose look is remembered. One that was forgotten is
	// decoded again when it is looked up.
	maxPictures = 1 << 17
	// maxPeeked and maxPeekedDirs bound how much of a tree is looked at.
	maxPeeked, maxPeekedDirs = 64, 64
)

// Fit plans a view for a sample, of which that is stored, or nil. A sample that the view would
// show in another shape than all others is refused.
func (s *Server) Fit(ctx context.Context, f File, v transcode.Pipeline, info transcode.Info, stored *store.Sample, most Effort) (transcode.Plan, error) {
	role, err := s.role(ctx, f, v, info, most)
	plan := s.Plan(v, info, role, stored)
	if err == nil {
		err = s.unfit(f, v, plan)
	}
	if step, out := plan.LeavesOut(v); err == nil && out && role != transcode.Mask && info.Mode != transcode.ModeNone {
		err = s.refusals.known(&Refusal{
			Dir: dirOf(f.Path), View: v.String(), Example: f.Path, Unfit: fmt.Sprintf("of mode %v", info.Mode),
			Step: step.String(), instead: s.o.Registry.OfPictures(v).String(),
		})
	}
	return plan, err
}

// role is what a view takes a sample for. Where it would spare the sample because it may be a
// mask, the pixels decide: they are decoded once, and what they tell depends on this file
// alone.
func (s *Server) role(ctx context.Context, f File, v transcode.Pipeline, info transcode.Info, most Effort) (transcode.Role, error) {
	role := v.Role(s.o.Roles.Of(f.Path))
	if !s.o.Registry.Undecided(v, info, role) {
		return role, nil
	}
	s.mu.Lock()
	known, ok := s.pictures.Get(f.Path)
	s.mu.Unlock()
	if !ok || known.identity != f.Identity {
		if most == Stored {
			return role, ErrUnknown
		}
		h, err := s.resolve(ctx, 0, f, s.o.Registry.OfPictures(s.refusals.pixels), Planned)
		if err != nil {
			return role, err
		}
		made, err := h.Make(ctx)
		if err != nil {
			return role, err
		}
		known = picture{f.Identity, transcode.LookOfArray(info, transcode.ModeRGB, made.Split.Data) == transcode.LookPicture}
		made.Release()
		s.mu.Lock()
		s.pictures.Put(strings.Clone(f.Path), known, 0)
		s.mu.Unlock()
	}
	if known.surely {
		role = transcode.Image
	}
	return role, nil
}

// unfit refuses a sample by itself of which a random view would draw nothing, or that would not
// get the size that a view gives to all others.
func (s *Server) unfit(f File, v transcode.Pipeline, plan transcode.Plan) error {
	info, out := plan.Info(), plan.Out()
	if info.Mode == transcode.ModeNone || info.Format == transcode.JPEG {
		return nil
	}
	shape, fixed := s.o.Registry.Fixed(v)
	spared := plan.Spared() && (fixed || v.Random())
	if !spared && (!fixed || out.Width == shape.Out().Width && out.Height == shape.Out().Height) {
		return nil
	}
	why := fmt.Sprintf("of mode %v", info.Mode)
	switch {
	case spared:
		why += " and may be a mask"
	case info.Animated:
		why = "of several frames"
	}
	return s.refusals.known(&Refusal{Dir: dirOf(f.Path), View: v.String(), Example: f.Path, Unfit: why, instead: s.o.Registry.OfPictures(v).String()})
}

// Spared counts the samples for which a view leaves out steps, or that it refuses, because they
// may be masks.
type Spared struct {
	View    string `json:"view"`
	Instead string `json:"instead"` // the view that takes them for pictures
	Samples int    `json:"samples"`
	Of      int    `json:"looked_at"`
	Example string `json:"example"`
	// Turned samples have an EXIF orientation other than 1.
	Turned int `json:"orientation,omitempty"`
	// Modes are those of what the view shows of the samples, and how many have each.
	Modes map[string]int `json:"modes"`
	// fixed: the view gives all pictures one size. refuses: it refuses some.
	fixed, refuses bool
}

// NewSpared has counted none.
func (s *Server) NewSpared(v transcode.Pipeline) Spared {
	_, fixed := s.o.Registry.Fixed(v)
	return Spared{View: v.String(), Instead: s.o.Registry.OfPictures(v).String(), Modes: map[string]int{}, fixed: fixed}
}

// Add takes in the plan of a sample, or why there is none, and reports whether it is spared.
func (c *Spared) Add(path string, plan transcode.Plan, err error) bool {
	c.Of++
	if plan.Info().Orientation > 1 {
		c.Turned++
	}
	c.refuses = c.refuses || IsUnfit(err)
	switch {
	case IsUnfit(err), plan.Spared():
		if c.Samples++; c.Example == "" || path < c.Example {
			c.Example = path
		}
		return true
	case err == nil:
		c.Modes[plan.Out().Mode.String()]++
	}
	return false
}

// String is one line that says what to do; "" where nothing is to be done.
func (c Spared) String() string {
	switch {
	case c.Samples > 0:
		does := "leaves out steps for them"
		if c.refuses {
			does = "refuses them"
		}
		return fmt.Sprintf("%d of %d samples looked at may be masks, such as %s: %s %s. Say --images GLOB if they are pictures, --masks GLOB if they are masks, or read %s, which takes all samples for pictures",
			c.Samples, c.Of, c.Example, c.View, does, c.Instead)
	case c.fixed && len(c.Modes) > 1:
		return fmt.Sprintf("the pictures of %s have several modes (%s), and so several numbers of channels: read %s, which makes RGB of all",
			c.View, strings.Join(slices.Sorted(maps.Keys(c.Modes)), ", "), c.Instead)
	}
	return ""
}

// Spares counts the given samples; nil are some at the top of the tree. It stops when
// ctx ends.
func (s *Server) Spares(ctx context.Context, v transcode.Pipeline, names []string) Spared {
	c := s.NewSpared(v)
	trial := transcode.Info{Format: transcode.PNG, Mode: transcode.ModeL, Width: 641, Height: 427, Orientation: 6}
	if !v.DropsOrientation() && !s.o.Registry.Plan(v, trial, transcode.Auto).Spared() {
		return c // nothing can be said of it
	}
	if names == nil {
		left := maxPeekedDirs
		names = s.peek("", &left)
	}
	for _, name := range names {
		a, err := s.Stat(name, false)
		if err != nil {
			continue
		}
		if s.o.Roles.Of(name) == transcode.Mask {
			c.Of++ // and its mode is not that of pictures
			continue
		}
		h, err := s.resolve(ctx, 0, File{Path: name, Identity: a.Identity}, v, Planned)
		if ctx.Err() != nil {
			break
		}
		c.Add(name, h.plan, err)
	}
	return c
}

// peek names a few samples of each of the first directories.
func (s *Server) peek(dir string, left *int) (names []string) {
	if *left--; *left < 0 {
		return nil
	}
	entries, _ := s.List(dir)
	var here []string
	for _, e := range entries {
		switch name := path.Join(dir, e.Name); {
		case e.Dir:
			names = append(names, s.peek(name, left)...)
		case s.o.Registry.IsSample(name):
			here = append(here, name)
		}
	}
	if len(here) > 0 {
		names = append(names, scattered(here, min(leastLooked, len(here)))...)
	}
	return names[:min(maxPeeked, len(names))]
}
