package main

import (
	"errors"
	"fmt"
	"log/slog"
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
	format   string  // the view that `mix` leads to
}

const (
	mixAll      = "all"
	mixAdaptive = "adaptive"
	mixLink     = "mix"
	autoLink    = "auto"
)

// mixOptions are those of mount.
func mixOptions(c *mixConfig) []*option {
	*c = mixConfig{share: 1, format: "ppm"}
	return []*option{
		{name: "mix", arg: "all|SHARE|adaptive", def: mixAll, set: c.set,
			help: "how much to read of what pipefs materialize stored in full: all; a share such as 0.3 or 30%, with --cache page of the samples that are stored both ways and always the same ones, with --cache daemon of all reads; or adaptive, with --cache daemon, as much as keeps disk and decoder equally busy while training runs"},
		{name: "mix-format", arg: "ppm|bmp", def: c.format, set: intoChoice(&c.format, "ppm", "bmp"),
			help: "the view of pixels that MNT/mix leads to"},
	}
}

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

// links points MNT/mix and MNT/auto to views.
func (m *running) links(log *slog.Logger) error {
	mix := m.config.mix.format
	if err := m.fs.SetLink(mixLink, mix); err != nil {
		return err
	}
	to := transcode.Original
	if m.packed != "" {
		auto, err := store.ReadAuto(m.packed)
		switch {
		case err == nil:
			to = auto.View
		case !errors.Is(err, store.ErrNotFound):
			log.Warn("what was measured to be best cannot be read; MNT/auto leads to the originals. pipefs tune --apply measures again", "store", m.packed, "cause", err)
		}
	}
	err := m.fs.SetLink(autoLink, to)
	if err != nil && to != transcode.Original {
		log.Warn("the view that was measured to be best is none of this version; MNT/auto leads to the originals", "view", to, "cause", err)
		err = m.fs.SetLink(autoLink, transcode.Original)
	}
	return err
}

// storedShare is the share of a store's samples that are stored as a view shows
// them.
func storedShare(s *store.Store, view string) float64 {
	if s == nil || s.Fraction(view) == nil {
		return 1
	}
	return s.Fraction(view).Share()
}
