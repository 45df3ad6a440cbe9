package mountd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

const (
	mixLink     = "mix"
	autoLink    = "auto"
	currentLink = "current"
)

// MixFormats are the views that may be a mix, the usual one first.
var MixFormats = []string{"bmp", "ppm", transcode.Stored + "-bmp", transcode.Stored + "-ppm"}

// policy is what chooses between representations, and what is told the load for that.
// stored is the share of samples that are materialized.
func (c *Config) policy(stored float64) (_ mixer.Policy, observe func(mixer.Load)) {
	mix := c.Views.Mix
	switch {
	case mix.Adaptive:
		a := mixer.NewAdaptive(stored, stored)
		return a, a.Observe
	case mix.Share == 1:
		return mixer.Longest{}, nil
	case c.Cache.Mode == fs.DaemonCache:
		return mixer.NewSteady(mix.Share), nil
	}
	return mixer.Fixed(mix.Share), nil
}

// tuned is the view that pipefs tune found to be best, "" where it did not run.
func (m *Mount) tuned(s *store.Store) string {
	if s == nil {
		return ""
	}
	auto, err := s.Auto()
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ""
	case err == nil:
		_, err = m.registry.Parse(auto.View)
	}
	if err != nil {
		m.log.Warn("what was measured to be best is of no use; MNT/auto leads to the originals. pipefs tune --apply measures again", "store", m.packed, "cause", err)
		return ""
	}
	return auto.View
}

// view is what MNT/mix shows. s may be nil.
func (c *Mix) view(tuned string, s *store.Store) string {
	switch {
	case c.Format != "":
		return c.Format
	case slices.Contains(MixFormats, tuned) && !c.Adaptive:
		return tuned
	}
	for _, view := range MixFormats {
		if s != nil && s.Fraction(view) != nil {
			return view
		}
	}
	return MixFormats[0]
}

// links are the links of the mount. They lead to views in which files have their own names:
// a program that goes by extensions finds every sample there.
func (m *Mount) links(mix, tuned string) []rootLink {
	links := []rootLink{
		{currentLink, currentViews(m.config.Views.Scans)},
		{mixLink, append([]string{mix}, pixelViews...)},
		{autoLink, append([]string{cmp.Or(tuned, transcode.Original)}, pixelViews...)},
	}
	for _, l := range links {
		for i, view := range l.to {
			l.to[i] = WithOwnNames(m.registry, view)
		}
	}
	return links
}

// rootLink is a link of the mount.
type rootLink struct {
	name string
	to   []string // the views that it may lead to, the best one first
}

// setLinks points each link to the first of its views that lacks nothing, and returns
// where those lead that do not lead to the best one.
func (m *Mount) setLinks(links []rootLink) (moved []string, err error) {
	there := m.fs.Links()
	for _, l := range links {
		if there[l.name] != "" {
			continue // a daemon before this one made it, and it may have been moved since
		}
		to, err := m.gaps.First(l.to...)
		switch {
		case errors.As(err, new(Gap)):
			moved = append(moved, l.name+" is not there")
			continue
		case err == nil:
			err = m.fs.SetLink(l.name, to)
		}
		if err != nil {
			return nil, err
		}
		if to != l.to[0] {
			moved = append(moved, l.name+" leads to "+to)
		}
	}
	return moved, nil
}

// WithOwnNames is a view with the files' own names: bmp-own of bmp.
func WithOwnNames(r *transcode.Registry, view string) string {
	p, err := r.Parse(view)
	if err != nil {
		return view // whoever opens it says what is wrong
	}
	return p.WithOwnNames().String()
}

// storedShare is the share of a store's samples that are stored as a view shows
// them.
func storedShare(s *store.Store, view string) float64 {
	view = strings.TrimPrefix(view, transcode.Stored+"-")
	if s == nil || s.Fraction(view) == nil {
		return 1
	}
	return s.Fraction(view).Share()
}

// current is the view that the link current leads to.
func (m *Mount) current() string { return m.fs.Links()[currentLink] }

// view is the name under which the mount shows a view or a link, and what is known of samples
// that it spares.
func (m *Mount) view(name string) (view, note string, err error) {
	if _, ok := m.fs.Links()[name]; ok {
		return name, "", nil
	}
	v, err := m.registry.ParsePath(name)
	if e := (*transcode.SpecError)(nil); errors.As(err, &e) {
		return "", "", fmt.Errorf("%w\n    %s", err, strings.ReplaceAll(e.Pointer(), "\n", "\n    "))
	}
	if err == nil {
		err = m.gaps.refuse(v)
	}
	if err == nil && m.bucket == nil { // of which each look is a request
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		seen := m.server.Spares(ctx, v, nil)
		note = seen.String()
		if note == "" && seen.Turned > 0 && v.DropsOrientation() {
			note = fmt.Sprintf("%d of %d samples looked at have an EXIF orientation, which %s drops: ImageFolder ignores it, too; for a loader that turns pictures by it (Hugging Face, OpenCV, Ultralytics, DALI), read upright-%[3]s",
				seen.Turned, seen.Of, v)
		}
	}
	return v.Path(), note, err
}

// setFidelity moves the link current.
func (m *Mount) setFidelity(scans int) error {
	if scans < 1 || scans > MaxFidelity {
		return fmt.Errorf("fidelity %d is not from 1 to %d", scans, MaxFidelity)
	}
	view, err := m.gaps.First(currentViews(scans)...)
	if err != nil {
		return err
	}
	return m.fs.SetCurrent(WithOwnNames(m.registry, view))
}

// currentViews are the views that current may lead to: the files at this fidelity, or
// their pixels.
func currentViews(scans int) []string {
	views := []string{ScanView(scans)}
	for _, pixels := range pixelViews {
		if scans < MaxFidelity {
			pixels = ScanView(scans) + "-" + pixels
		}
		views = append(views, pixels)
	}
	return views
}

// pixelViews show all pixels, and are made of whatever a store has. The last two hold
// pictures of every mode.
var pixelViews = []string{"bmp", "png", "npy"}
