package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// mixConfig is how a mount mixes representations.
type mixConfig struct {
	adaptive bool
	share    float64 // of reads, from what is stored in full
	format   string  // the view that `mix` leads to; "" leaves it to what was measured
}

const (
	mixAll      = "all"
	mixAdaptive = "adaptive"
	mixLink     = "mix"
	autoLink    = "auto"
	currentLink = "current"
)

// mixOptions are those of mount.
func mixOptions(c *mixConfig) []*option {
	*c = mixConfig{share: 1}
	return []*option{
		{name: "mix", arg: "all|SHARE|adaptive", def: mixAll, set: c.set,
			help: "how much to read of what pipefs materialize stored in full: all; a share such as 0.3 or 30%, with --cache page of the samples that are stored both ways and always the same ones, with --cache daemon of all reads; or adaptive, with --cache daemon, as much as keeps disk and decoder equally busy while training runs"},
		{name: "mix-format", arg: strings.Join(mixFormats, "|"), def: "what pipefs tune found, or what is stored, or " + mixFormats[0], set: intoChoice(&c.format, mixFormats...),
			help: "what MNT/mix shows, under the files' own names: bmp or ppm, pixels of every sample, decoded by the mount where they are not stored in full; or stored-bmp or stored-ppm, pixels where they are stored in full, and the other files as they are for the loader to decode"},
	}
}

// mixFormats are the views that may be a mix, the usual one first.
var mixFormats = []string{"bmp", "ppm", transcode.Stored + "-bmp", transcode.Stored + "-ppm"}

func (c *mixConfig) set(value string) error {
	c.adaptive, c.share = false, 1
	switch value {
	case mixAll:
		return nil
	case mixAdaptive:
		c.adaptive = true
		return nil
	}
	share, err := parseShare(value)
	if err != nil {
		return fmt.Errorf("%q: want %s, %s, or a share such as 0.3 or 30%%", value, mixAll, mixAdaptive)
	}
	c.share = share
	return nil
}

var errShare = errors.New("want a share from 0 to 1, such as 0.3, 30% or 3/10")

// parseShare reads 0.3, 30% or 3/10.
func parseShare(s string) (float64, error) {
	of := 1.0
	if number, ok := strings.CutSuffix(s, "%"); ok {
		s, of = number, 100
	} else if number, below, ok := strings.Cut(s, "/"); ok {
		var err error
		if of, err = strconv.ParseFloat(below, 64); err != nil || of <= 0 {
			return 0, errShare
		}
		s = number
	}
	share, err := strconv.ParseFloat(s, 64)
	if err != nil || !(share >= 0 && share <= of) {
		return 0, errShare
	}
	return share / of, nil
}

// check refuses what the cache mode cannot do.
func (c *mixConfig) check(cache string) error {
	if c.adaptive && cache != "daemon" {
		return exit.Errorf(exit.Usage, "--mix %s needs --cache daemon: with --cache page the kernel opens files without telling, and would keep pages of both", mixAdaptive)
	}
	if c.adaptive && strings.HasPrefix(c.format, transcode.Stored+"-") {
		return exit.Errorf(exit.Usage, "--mix %s changes from read to read, and the files of %s never do; it goes with --mix-format bmp or ppm", mixAdaptive, c.format)
	}
	return nil
}

// policy is what chooses between representations. stored is the share of samples
// that are stored in full.
func (c *mixConfig) policy(cache string, stored float64) mixer.Policy {
	switch {
	case c.adaptive:
		return mixer.NewAdaptive(stored, stored)
	case c.share == 1:
		return mixer.Longest{}
	case cache == "daemon":
		return mixer.NewSteady(c.share)
	}
	return mixer.Fixed(c.share)
}

// tuned is the view that pipefs tune found to be best, "" where it did not run.
func (m *running) tuned(log *slog.Logger) string {
	if m.packed == "" {
		return ""
	}
	auto, err := store.ReadAuto(m.packed)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ""
	case err == nil:
		_, err = m.registry.Parse(auto.View)
	}
	if err != nil {
		log.Warn("what was measured to be best is of no use; MNT/auto leads to the originals. pipefs tune --apply measures again", "store", m.packed, "cause", err)
		return ""
	}
	return auto.View
}

// mixView is what MNT/mix shows. s may be nil.
func (c *mixConfig) mixView(tuned string, s *store.Store) string {
	switch {
	case c.format != "":
		return c.format
	case slices.Contains(mixFormats, tuned) && !c.adaptive:
		return tuned
	}
	for _, view := range mixFormats {
		if s != nil && s.Fraction(view) != nil {
			return view
		}
	}
	return mixFormats[0]
}

// links are the links of the mount. They lead to views in which files have their own names:
// a program that goes by extensions finds every sample there.
func (m *running) links(mix, tuned string) []rootLink {
	links := []rootLink{
		{currentLink, fidelityViews(m.config.fidelity)},
		{mixLink, append([]string{mix}, pixelViews...)},
		{autoLink, append([]string{cmp.Or(tuned, transcode.Original)}, pixelViews...)},
	}
	for _, l := range links {
		for i, view := range l.to {
			l.to[i] = withOwnNames(m.registry, view)
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
func (m *running) setLinks(links []rootLink) (moved []string, err error) {
	for _, l := range links {
		to, err := m.gaps.first(l.to...)
		switch {
		case errors.As(err, new(gap)):
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

// withOwnNames is a view with the files' own names: bmp-own of bmp.
func withOwnNames(r *transcode.Registry, view string) string {
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
