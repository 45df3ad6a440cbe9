package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/transcode"
)

// find finds the source, and lists it.
func (c *benchConfig) find(ctx context.Context) (err error) {
	if c.Program, err = os.Executable(); err != nil {
		return err
	}
	if point, err := mounts.Resolve(c.from.Path); err == nil && !remote.Is(c.from.Path) {
		at, err := mounts.At(point)
		if err != nil {
			return err
		}
		if at != nil && at.Ours() {
			if err := c.attach(ctx, point); err != nil {
				return err
			}
		}
	}
	s, err := openSource(ctx, c.env, c.from)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, note := range s.Notes {
		c.note("%s", note)
	}
	c.Source, c.Registry = s.Path, s.Registry
	c.Plain, c.Prepared = c.from.Dataset, s.Store != nil
	if s.Store == nil && !remote.Is(c.Source) {
		c.Plain = c.Source
	} else if c.Plain != "" {
		c.Options = append(c.Options, "--dataset", c.Plain)
	}
	if remote.Is(c.Source) {
		// Else only the first of many rounds would read from there.
		c.Options = append(append(c.Options, c.from.Remote.Flags()...), "--disk-cache-size", "0")
		c.limited = append(c.limited, "epochs from the disk read from "+c.Source+", of which nothing is kept on this machine")
	}
	for _, glob := range c.from.Roles.Images {
		c.roles = append(c.roles, "--images", glob)
	}
	for _, glob := range c.from.Roles.Masks {
		c.roles = append(c.roles, "--masks", glob)
	}
	c.Options = append(c.Options, c.roles...)
	if c.from.Classes != "" {
		c.Options = append(c.Options, "--classes", c.from.Classes)
	}
	var mixed []string // views of what is materialized
	for _, spec := range mountd.MixFormats {
		if whole, of := strings.CutPrefix(spec, transcode.Stored+"-"); of && s.Store != nil && s.Store.Fraction(whole) != nil {
			mixed = append(mixed, spec)
		}
	}
	unlike := ""
	if c.Archives = mountd.ArchivesOf(s.Dataset); len(c.Archives) > 0 {
		unlike = "the files are members of archives"
	} else if c.from.Classes != "" {
		unlike, c.Archives = "the directories are those of a list of classes", []string{c.Source}
	}
	if unlike != "" {
		c.Plain = ""
		c.limited = append(c.limited, unlike+": there are no plain files to compare with")
	}
	if c.Plain != "" {
		survey.NoteLists(c.note, c.Plain, cmp.Or(c.Mount, "MNT"))
	}
	l, err := s.List(ctx, unlisted(c.env))
	if err != nil {
		return err
	}
	if c.Files = l.Samples; len(c.Files) == 0 {
		return usage.Errorf("%s; there is nothing to compare", survey.NoPictures(l, c.Source))
	}
	k := survey.Look(ctx, s, l, c.from.Roles, survey.MostLooked/10)
	k.NoteTurned(c.note)
	if c.Mount != "" {
		k.Accept() // it was told what its files are
	}
	c.reading = loader.NewReading(c.reader, loader.Extensions(c.Files), k.Turned)
	mixed = slices.DeleteFunc(mixed, func(view string) bool {
		why := c.reading.Uncommon(c.Registry, view)
		if why != "" && c.Views == nil {
			fmt.Fprintf(c.env.stderr, "pipefs: left out: %s\n", why)
		}
		return why != ""
	})
	c.usual = compared(c.Registry, k, c.reading, mixed)
	if c.Mount == "" {
		if c.rebuilt, err = survey.Rebuilt(s); err != nil {
			return err
		}
	}
	c.gaps, err = c.findGaps(s)
	return err
}

// findGaps finds the views that cannot be measured, because they lack samples.
func (c *benchConfig) findGaps(s *mountd.Source) (*mountd.Gaps, error) {
	if c.Mount == "" && c.from.Dataset == "" {
		return s.Gaps(c.usual...)
	}
	g := &mountd.Gaps{}
	if c.Mount == "" {
		return g, nil
	}
	// The mount may have the dataset: it lists what lacks nothing.
	listed, err := os.ReadDir(c.Mount)
	for _, view := range mountd.UsualViews(c.Registry) {
		if !slices.ContainsFunc(listed, func(e os.DirEntry) bool { return e.Name() == view }) {
			g.Add(view, serve.Missing{Samples: 1})
		}
	}
	return g, err
}

// tellGaps says which of some views lack samples.
func (c *benchConfig) tellGaps(views []string) {
	for _, l := range c.gaps.All() {
		switch {
		case !slices.Contains(views, l.View):
		case c.Mount != "":
			fmt.Fprintf(c.env.stderr, "pipefs: %s does not list %s, which cannot show all samples\n", c.Mount, l.View)
		default:
			fmt.Fprintf(c.env.stderr, "pipefs: %v\n", l)
		}
	}
}

// spareLooked is how many samples are looked at, at least, for what views leave as it is.
const spareLooked = 64

// noteRefusals says which directories the views refuse: their rows fail.
func (c *benchConfig) noteRefusals(ctx context.Context, specs ...string) error {
	if c.Mount != "" {
		return nil // it was told what its files are
	}
	from := c.from
	from.Path, from.Registry = c.Source, c.Registry
	s, err := openSource(ctx, c.env, from)
	if err != nil {
		return err
	}
	defer s.Close()
	var views []transcode.Pipeline
	for _, spec := range specs {
		if p, err := c.Registry.ParseRandom(spec); err == nil {
			views = append(views, p)
		}
	}
	for _, v := range views {
		survey.NoteSpared(c.note, s.Server.Spares(ctx, v, loader.Evenly(c.Files, max(c.Samples, spareLooked))))
	}
	refused, err := s.Server.Refusals(ctx, c.Files, views)
	survey.TellRefusals(refused, func(line string) { c.note("%s", line) })
	return err
}

// attach takes a mount as it is.
func (c *benchConfig) attach(ctx context.Context, point string) error {
	if c.throttled != (cgroup.Limits{}) {
		return usage.Errorf("%s is mounted already: its daemon cannot be slowed down. Measure the dataset or store itself", point)
	}
	if c.pipeline != "" {
		return usage.Errorf("%s is a mount: splits are compared for a dataset", point)
	}
	if c.from.Roles.Given() {
		return usage.Errorf("%s is mounted already: --images and --masks are told to pipefs mount", point)
	}
	stats, err := statsOf(ctx, point)
	if err != nil {
		return err
	}
	c.Mount, c.from.Path = point, stats.Source
	return nil
}

// rebuiltByMount says whether the mount that was measured has rebuilt originals.
func (c *benchConfig) rebuiltByMount(ctx context.Context) error {
	stats, err := statsOf(ctx, c.Mount)
	if err != nil {
		return err
	}
	for _, n := range stats.Counters {
		if n.Name == mountd.RebuiltCounter && n.Value > 0 {
			c.rebuilt = fmt.Sprintf("original/ of this mount rebuilds JPEG files from scans when they are first read, at %s; a mount with --dataset DIR reads the files instead, and so does one of a store packed with --originals keep", survey.RebuildCost)
		}
	}
	return nil
}

// makeWork makes the directory for what mounts keep.
func (c *benchConfig) makeWork() (err error) {
	parent := c.parent
	if parent == "" {
		if parent, err = mountd.UserDir("XDG_CACHE_HOME", ".cache"); err != nil {
			return fmt.Errorf("cache directory: %w", err)
		}
	}
	if c.Work, err = views.WorkDir(parent); err != nil {
		return err
	}
	if c.parent == "" {
		survey.NoteCache(c.note, parent, "--work")
	}
	return nil
}

// limit slows the disk down and bounds memory: by a cgroup, or the disk by the daemon.
func (c *benchConfig) limit() error {
	limits := c.throttled
	if limits == (cgroup.Limits{}) {
		return nil
	}
	at := c.Source
	if remote.Is(at) {
		at = c.Work // where the cache is
	} else if len(c.Archives) > 0 {
		at = c.Archives[0]
	}
	group, err := cgroup.Enter(at, limits)
	if err == nil {
		c.group = group
		c.limited = append(c.limited, group.String())
		return nil
	}
	if limits.Memory != 0 || !errors.Is(err, cgroup.ErrNone) {
		return fmt.Errorf("limiting: %w", err)
	}
	if limits.BytesPerSecond != 0 {
		c.Options = append(c.Options, "--limit-read", strconv.FormatInt(limits.BytesPerSecond, 10)+"B/s")
	}
	if limits.ReadsPerSecond != 0 {
		c.Options = append(c.Options, "--limit-reads", strconv.FormatInt(limits.ReadsPerSecond, 10))
	}
	c.limited = append(c.limited, fmt.Sprintf("the daemon reads no faster than it is told, from its page cache neither; plain files cannot be slowed down and are not compared (%s)", strings.ReplaceAll(err.Error(), "\n", "; ")))
	c.Plain = ""
	return nil
}

// close ends the limits, and removes what was prepared.
func (c *benchConfig) close() error {
	var errs []error
	if c.Loader != nil {
		errs = append(errs, c.Loader.Close())
	}
	if c.group != nil {
		errs = append(errs, c.group.Close())
	}
	if c.Work != "" {
		errs = append(errs, os.RemoveAll(c.Work))
	}
	return errors.Join(errs...)
}
