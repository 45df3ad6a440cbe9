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
	"time"

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

// openedBench is a measurement under way.
type openedBench struct {
	env      *environ
	note     func(format string, args ...any)
	c        *benchConfig
	program  string
	source   string   // absolute: the dataset or store
	Mount    string   // of a mount that was there, or empty
	plain    string   // the dataset, if there is one and it is a directory
	archives []string // archives, or the directory, that hold the dataset's files under other names
	files    []string
	prepared bool // the source is a store
	registry *transcode.Registry
	work     string
	options  []string // of mounts
	roles    []string // of these, what samples are
	group    *cgroup.Group
	loader   loader.Loader
	gaps     *mountd.Gaps // of the views that may be compared
	Limited  []string     // how disk and memory are limited
	reading  loader.Reading
	usual    []string // views that are compared if none are named
	Assumed  string   // for which loaders the views are
	Rebuilt  string   // what it costs that originals are rebuilt
}

// openBench finds what is to be measured, and sets the limits.
func openBench(ctx context.Context, env *environ, c *benchConfig) (_ *openedBench, err error) {
	b := &openedBench{env: env, note: noter(env.stderr), c: c}
	if b.program, err = os.Executable(); err != nil {
		return nil, err
	}
	if err := b.find(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	parent := c.Work
	if parent == "" {
		if parent, err = mountd.UserDir("XDG_CACHE_HOME", ".cache"); err != nil {
			return nil, fmt.Errorf("cache directory: %w", err)
		}
	}
	if b.work, err = views.WorkDir(parent); err != nil {
		return nil, err
	}
	if c.Work == "" {
		survey.NoteCache(b.note, parent, "--work")
	}
	return b, b.limit()
}

// find finds the source, and lists it.
func (b *openedBench) find(ctx context.Context) error {
	path := b.c.Source
	if point, err := mounts.Resolve(path); err == nil && !remote.Is(path) {
		at, err := mounts.At(point)
		if err != nil {
			return err
		}
		if at != nil && at.Ours() {
			if path, err = b.attach(point); err != nil {
				return err
			}
		}
	}
	s, err := openSource(ctx, b.env, mountd.SourceOptions{Path: path, Remote: b.c.Remote, Dataset: b.c.Dataset, Classes: b.c.Classes, Roles: b.c.Roles, Limits: b.c.Limits})
	if err != nil {
		return err
	}
	defer s.Close()
	for _, note := range s.Notes {
		b.note("%s", note)
	}
	b.source, b.registry = s.Path, s.Registry
	b.plain, b.prepared = b.c.Dataset, s.Store != nil
	if s.Store == nil && !remote.Is(b.source) {
		b.plain = b.source
	} else if b.plain != "" {
		b.options = append(b.options, "--dataset", b.plain)
	}
	if remote.Is(b.source) {
		// Else only the first of many rounds would read from there.
		b.options = append(append(b.options, b.c.Remote.Flags()...), "--disk-cache-size", "0")
		b.Limited = append(b.Limited, "epochs from the disk read from "+b.source+", of which nothing is kept on this machine")
	}
	for _, glob := range b.c.Roles.Images {
		b.roles = append(b.roles, "--images", glob)
	}
	for _, glob := range b.c.Roles.Masks {
		b.roles = append(b.roles, "--masks", glob)
	}
	b.options = append(b.options, b.roles...)
	if b.c.Classes != "" {
		b.options = append(b.options, "--classes", b.c.Classes)
	}
	var mixed []string // views of what is materialized
	for _, spec := range mountd.MixFormats {
		if whole, of := strings.CutPrefix(spec, transcode.Stored+"-"); of && s.Store != nil && s.Store.Fraction(whole) != nil {
			mixed = append(mixed, spec)
		}
	}
	unlike := ""
	if b.archives = mountd.ArchivesOf(s.Dataset); len(b.archives) > 0 {
		unlike = "the files are members of archives"
	} else if b.c.Classes != "" {
		unlike, b.archives = "the directories are those of a list of classes", []string{b.source}
	}
	if unlike != "" {
		b.plain = ""
		b.Limited = append(b.Limited, unlike+": there are no plain files to compare with")
	}
	if b.plain != "" {
		survey.NoteLists(b.note, b.plain, cmp.Or(b.Mount, "MNT"))
	}
	l, err := s.List(ctx, unlisted(b.env))
	if err != nil {
		return err
	}
	if b.files = l.Samples; len(b.files) == 0 {
		return usage.Errorf("%s; there is nothing to compare", survey.NoPictures(l, b.source))
	}
	k := survey.Look(ctx, s, l, b.c.Roles, survey.MostLooked/10)
	k.NoteTurned(b.note)
	if b.Mount != "" {
		k.Accept() // it was told what its files are
	}
	b.reading = loader.NewReading(b.c.Reader, loader.Extensions(b.files), k.Turned)
	mixed = slices.DeleteFunc(mixed, func(view string) bool {
		why := b.reading.Uncommon(b.registry, view)
		if why != "" && b.c.Views == nil {
			fmt.Fprintf(b.env.stderr, "pipefs: left out: %s\n", why)
		}
		return why != ""
	})
	b.usual = compared(b.registry, k, b.reading, mixed)
	if b.Mount == "" {
		if b.Rebuilt, err = survey.Rebuilt(s); err != nil {
			return err
		}
	}
	b.gaps, err = b.findGaps(s)
	return err
}

// findGaps finds the views that cannot be measured, because they lack samples.
func (b *openedBench) findGaps(s *mountd.Source) (*mountd.Gaps, error) {
	if b.Mount == "" && b.c.Dataset == "" {
		return s.Gaps(b.usual...)
	}
	g := &mountd.Gaps{}
	if b.Mount == "" {
		return g, nil
	}
	// The mount may have the dataset: it lists what lacks nothing.
	listed, err := os.ReadDir(b.Mount)
	for _, view := range mountd.UsualViews(b.registry) {
		if !slices.ContainsFunc(listed, func(e os.DirEntry) bool { return e.Name() == view }) {
			g.Add(view, serve.Missing{Samples: 1})
		}
	}
	return g, err
}

// tellGaps says which of some views lack samples.
func (b *openedBench) tellGaps(views []string) {
	for _, l := range b.gaps.All() {
		switch {
		case !slices.Contains(views, l.View):
		case b.Mount != "":
			fmt.Fprintf(b.env.stderr, "pipefs: %s does not list %s, which cannot show all samples\n", b.Mount, l.View)
		default:
			fmt.Fprintf(b.env.stderr, "pipefs: %v\n", l)
		}
	}
}

// spareLooked is how many samples are looked at, at least, for what views leave as it is.
const spareLooked = 64

// noteRefusals says which directories the views refuse: their rows fail.
func (b *openedBench) noteRefusals(ctx context.Context, specs ...string) error {
	if b.Mount != "" {
		return nil // it was told what its files are
	}
	s, err := openSource(ctx, b.env, mountd.SourceOptions{Path: b.source, Remote: b.c.Remote, Classes: b.c.Classes, Roles: b.c.Roles, Registry: b.registry})
	if err != nil {
		return err
	}
	defer s.Close()
	var views []transcode.Pipeline
	for _, spec := range specs {
		if p, err := b.registry.ParseRandom(spec); err == nil {
			views = append(views, p)
		}
	}
	for _, v := range views {
		survey.NoteSpared(b.note, s.Server.Spares(ctx, v, loader.Evenly(b.files, max(b.c.Samples, spareLooked))))
	}
	refused, err := s.Server.Refusals(ctx, b.files, views)
	survey.TellRefusals(refused, func(line string) { b.note("%s", line) })
	return err
}

// attach takes a mount as it is, and returns what is mounted there.
func (b *openedBench) attach(point string) (string, error) {
	if b.c.Throttled != (cgroup.Limits{}) {
		return "", usage.Errorf("%s is mounted already: its daemon cannot be slowed down. Measure the dataset or store itself", point)
	}
	if b.c.Pipeline != "" {
		return "", usage.Errorf("%s is a mount: splits are compared for a dataset", point)
	}
	if b.c.Roles.Given() {
		return "", usage.Errorf("%s is mounted already: --images and --masks are told to pipefs mount", point)
	}
	stats, err := statsOf(context.Background(), point)
	if err != nil {
		return "", err
	}
	b.Mount = point
	return stats.Source, nil
}

// RebuiltByMount says whether the mount that was measured has rebuilt originals.
func (b *openedBench) RebuiltByMount(ctx context.Context) error {
	stats, err := statsOf(ctx, b.Mount)
	if err != nil {
		return err
	}
	for _, c := range stats.Counters {
		if c.Name == mountd.RebuiltCounter && c.Value > 0 {
			b.Rebuilt = fmt.Sprintf("original/ of this mount rebuilds JPEG files from scans when they are first read, at %s; a mount with --dataset DIR reads the files instead, and so does one of a store packed with --originals keep", survey.RebuildCost)
		}
	}
	return nil
}

// limit slows the disk down and bounds memory: by a cgroup, or the disk by the daemon.
func (b *openedBench) limit() error {
	limits := b.c.Throttled
	if limits == (cgroup.Limits{}) {
		return nil
	}
	at := b.source
	if remote.Is(at) {
		at = b.work // where the cache is
	} else if len(b.archives) > 0 {
		at = b.archives[0]
	}
	group, err := cgroup.Enter(at, limits)
	if err == nil {
		b.group = group
		b.Limited = append(b.Limited, group.String())
		return nil
	}
	if limits.Memory != 0 || !errors.Is(err, cgroup.ErrNone) {
		return fmt.Errorf("limiting: %w", err)
	}
	if limits.BytesPerSecond != 0 {
		b.options = append(b.options, "--limit-read", strconv.FormatInt(limits.BytesPerSecond, 10)+"B/s")
	}
	if limits.ReadsPerSecond != 0 {
		b.options = append(b.options, "--limit-reads", strconv.FormatInt(limits.ReadsPerSecond, 10))
	}
	b.Limited = append(b.Limited, fmt.Sprintf("the daemon reads no faster than it is told, from its page cache neither; plain files cannot be slowed down and are not compared (%s)", strings.ReplaceAll(err.Error(), "\n", "; ")))
	b.plain = ""
	return nil
}

// Close ends the limits, and removes what was prepared.
func (b *openedBench) Close() error {
	var errs []error
	if b.loader != nil {
		errs = append(errs, b.loader.Close())
	}
	if b.group != nil {
		errs = append(errs, b.group.Close())
	}
	if b.work != "" {
		errs = append(errs, os.RemoveAll(b.work))
	}
	return errors.Join(errs...)
}

// benchConfig is all that a comparison can be told.
type benchConfig struct {
	asJSON          bool
	html            string
	Source, Dataset string // as given; absolute
	Remote          remote.Access
	Views           []string
	Loader          string
	Exec            string
	Reader          string // of --for
	Python          string
	Workers, Batch  int
	Compute         loader.Compute
	Samples, Rounds int
	Budget          time.Duration
	Throttled       cgroup.Limits
	Work            string
	Classes         string // list of classes, see source.Classes; or empty
	Roles           transcode.Roles
	Limits          transcode.Limits

	Pipeline string // whose splits are compared, instead of views
}

// The loaders that there are.
const (
	autoLoader    = "auto"
	builtinLoader = "builtin"
	torchLoader   = "torch"
)
