package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// looked is the number of samples that are looked at where there are many more.
const looked = 20_000

func viewsCommand(env *environ) *command {
	var all, steps, asJSON bool
	var roles transcode.Roles
	var limits transcode.Limits
	return &command{
		name: "views", args: "DATASET|STORE [VIEW…]", min: 0, max: 1000,
		brief: "show what the views of a dataset hold, before it is mounted",
		about: "For each of the usual views, and each VIEW named: how many samples it changes and how many it shows unchanged, the size of all its files where that is known without making them, and the path of one. Only headers are read.",
		examples: []example{
			{"pipefs views ~/imagenet", "the usual views"},
			{"pipefs views ~/scenes resize512-png --masks '**/labels/*.png'", "one more view, and what it does to masks"},
			{"pipefs views --steps", "the steps that views are made of"},
		},
		words: []string{"sample", "step", "view", "mask"},
		options: slices.Concat(roleOptions(&roles), []*option{
			{name: "all", set: intoBool(&all), help: fmt.Sprintf("look at every sample, not at %s of them", formatCount(looked))},
			{name: "steps", set: intoBool(&steps), help: "list the steps, and look at no dataset"},
			{name: "json", set: intoBool(&asJSON), help: "print JSON"},
		}, limitOptions(&limits)),
		run: func(ctx context.Context, args []string) error {
			if steps {
				printSteps(env.stdout, codecs.Default(limits))
				return nil
			}
			if len(args) == 0 {
				return exit.Errorf(exit.Usage, "views needs a dataset or a store: pipefs views ~/imagenet (or --steps)")
			}
			s, err := opening{path: args[0], roles: roles, limits: limits}.open(env)
			if err != nil {
				return err
			}
			defer s.close()
			t := &tally{of: s, roles: roles}
			for _, spec := range mountd.Unique(append(mountd.UsualViews(s.registry), args[1:]...)) {
				p, err := s.registry.Parse(spec)
				if err != nil {
					return err
				}
				t.views = append(t.views, &viewTally{Pipeline: p, View: spec, Exact: true})
			}
			found, err := t.count(ctx, env, all)
			if err != nil {
				return err
			}
			t.Boxes = s.boxes(ctx, found)
			if t.Refused, err = refusals(ctx, s.server, t.samples, t.pipelines()); err != nil {
				return err
			}
			if err := t.name(env); err != nil {
				return err
			}
			if asJSON {
				return printJSON(env.stdout, t)
			}
			if t.Samples == 0 {
				fmt.Fprintf(env.stderr, "pipefs: note: %s\n", listing{others: t.Others, dirs: t.dirs}.nothing(s.path))
				return nil
			}
			t.print(env.stdout)
			return nil
		},
	}
}

func printSteps(w io.Writer, r *transcode.Registry) {
	t := newTable(w, "step", "argument", "what it does")
	for _, k := range r.Kinds() {
		if k.Name == "decode" { // implied, and never written
			continue
		}
		argument := ""
		if k.Max != 0 {
			argument = fmt.Sprintf("%d to %d", k.Min, k.Max)
		}
		t.AppendRow(table.Row{k.Name, argument, k.Brief})
	}
	t.Render()
	fmt.Fprintln(w, "A view joins steps by hyphens: resize256-grey-png. Where a step needs pixels they\nare decoded without saying so. A view lists its files with the extension of what\nthey are; with the word own at its end it lists them under their own names: bmp-own.\nBegun with the word stored, a view shows only what is materialized (pipefs\nmaterialize) as the steps make it, and the other files as they are, all under their\nown names: stored-bmp.")
}

// tally counts what views do to the samples of a tree.
type tally struct {
	of      *input
	roles   transcode.Roles
	views   []*viewTally
	dirs    int
	samples []string

	example *sight       // of the unread, the first by path
	Samples int          `json:"samples"`
	Others  int          `json:"other_files"`
	Looked  int          `json:"looked_at"`
	Faults  int          `json:"faults"`
	Unread  int          `json:"unread"`        // unchanged in every view: no codec reads them
	Turned  int          `json:"orientation"`   // an EXIF orientation other than 1
	Perhaps int          `json:"perhaps_masks"` // unchanged in a view for that reason
	Boxes   boxes        `json:"boxes"`
	Views   []*viewTally `json:"views"`
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
	Missing   int64              `json:"missing,omitempty"`   // not shown
	Reencoded int64              `json:"reencoded,omitempty"` // of those changed
	Bytes     int64              `json:"bytes"`
	Exact     bool               `json:"bytes_exact"`
	Example   string             `json:"example,omitempty"`

	sample string // that of Example, its own path
	shows  bool   // changed
}

// count looks at the samples, and returns files that may have boxes.
func (t *tally) count(ctx context.Context, env *environ, all bool) (annotations, error) {
	l, err := t.of.list(func(err error) { fmt.Fprintf(env.stderr, "pipefs: left out: %v\n", err) }, ctx.Err)
	if err != nil {
		return nil, err
	}
	t.Samples, t.Others, t.dirs, t.Views, t.samples = len(l.samples), l.others, l.dirs, t.views, l.samples
	names := l.samples
	if !all {
		names = loader.Evenly(names, looked)
	}
	bar := newProgress(env, "looking at samples", len(names))
	defer bar.done()
	if err := t.of.lookAll(ctx, names, func(seen sight) {
		bar.add(1)
		t.add(seen)
	}); err != nil {
		return nil, err
	}
	if t.Looked < t.Samples {
		for _, v := range t.views {
			v.Exact = false
		}
	}
	return l.annotations, nil
}

func (t *tally) add(seen sight) {
	t.Looked++
	if seen.fault != "" {
		t.Faults++
		return
	}
	if seen.unread != "" {
		t.Unread++
		if t.example == nil || seen.path < t.example.path {
			t.example = &seen
		}
	}
	if seen.info.Orientation > 1 {
		t.Turned++
	}
	role := t.roles.Of(seen.path)
	perhapsMask := false
	for _, v := range t.views {
		if causeOf(t.of.registry, v.Pipeline, seen.info, role) == perhaps {
			perhapsMask = true
		}
		switch t.of.server.Shows(v.Pipeline, seen.stored) {
		case serve.NotShown:
			v.Missing++
			v.Exact = false
			continue
		case serve.Reencoded:
			v.Reencoded++
		}
		plan := t.of.server.Plan(v.Pipeline, seen.info, role, seen.stored)
		changed := t.holds(v, plan, seen) && !plan.Unchanged()
		if changed {
			v.Changed++
			if size, ok := sizeIn(plan, seen); ok {
				v.Bytes += size
			} else {
				v.Exact = false
			}
		} else {
			v.Unchanged++
			v.Bytes += seen.size
		}
		// the first one by name, preferring those that the view changes
		if v.sample == "" || changed && !v.shows || changed == v.shows && seen.path < v.sample {
			v.sample, v.shows = seen.path, changed
		}
	}
	if perhapsMask {
		t.Perhaps++
	}
}

// name finds out under which names the views list their examples.
func (t *tally) name(env *environ) error {
	files, err := t.of.files(env, t.roles)
	if err != nil {
		return err
	}
	for _, v := range t.views {
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

func (t *tally) pipelines() (all []transcode.Pipeline) {
	for _, v := range t.views {
		all = append(all, v.Pipeline)
	}
	return all
}

// holds reports whether a view shows a sample as its steps make it, as far as that
// depends on what is stored.
func (t *tally) holds(v *viewTally, plan transcode.Plan, seen sight) bool {
	return !v.Pipeline.Stored() || seen.stored != nil && !plan.Unchanged() && t.of.store.Holds(seen.stored, plan.Key())
}

// sizeIn is the size of a sample in a view, if it is known without making it.
func sizeIn(plan transcode.Plan, seen sight) (int64, bool) {
	if size, ok := plan.Size(); ok {
		return size, true
	}
	if seen.stored == nil {
		return 0, false
	}
	key, level := plan.Key(), 0
	if head, ok := plan.Head(); ok && plan.Len() == 1 {
		key, level = transcode.SplitKey(head.Kind), head.Arg
	}
	if rep := seen.stored.Representation(key); rep != nil && rep.Size(level) >= 0 {
		return rep.Size(level), true
	}
	return 0, false
}

// gaps are what the views lack of the samples that were looked at.
func (t *tally) gaps() *mountd.Gaps {
	g := &mountd.Gaps{}
	for _, v := range t.views {
		missing := serve.Missing{Samples: v.Missing, Reencoded: v.Reencoded, Of: int64(t.Looked - t.Faults)}
		g.Add(v.View, missing)
	}
	return g
}

func (t *tally) print(w io.Writer) {
	out := newTable(w, "view", "files", "changed", "unchanged", "size", "for example")
	right(out, 3, 4, 5)
	unknown := false
	for _, v := range t.views {
		size := "–"
		switch {
		case v.Exact:
			size = formatSize(v.Bytes)
		default:
			unknown = true
		}
		ext := ""
		if v.Ext != "" {
			ext = "." + v.Ext
		}
		out.AppendRow(table.Row{v.View, ext, formatCount(v.Changed), formatCount(v.Unchanged), size, v.Example})
	}
	out.Render()
	fmt.Fprintf(w, "%s, %s\n", plural(t.Samples, "sample", "samples"), plural(t.Others, "other file, shown as it is", "other files, shown as they are"))
	note := func(format string, args ...any) { fmt.Fprintf(w, "note: %s\n", wrap(fmt.Sprintf(format, args...), 6)) }
	if text := t.gaps().Describe(); text != "" {
		note("%s", text)
	}
	if t.Looked < t.Samples {
		note("counted on %s of them, evenly spread; --all looks at every one", plural(t.Looked, "sample", "samples"))
	} else if unknown {
		note("– is a size that is not known before the files are made")
	}
	if t.Turned > 0 {
		note("%s an EXIF orientation, which views do not apply; use upright, as in upright-resize256-bmp", plural(t.Turned, "sample has", "samples have"))
	}
	if t.Perhaps > 0 {
		note("%s unchanged somewhere because of being perhaps a mask; --images GLOB says that they are pictures, --masks GLOB that they are masks, which then get the size of their pictures", plural(t.Perhaps, "sample is", "samples are"))
	}
	if t.Unread > 0 {
		note("%s unchanged in every view, such as %s: %s; pipefs info lists them", plural(t.Unread, "sample appears", "samples appear"), t.example.path, t.example.unread)
	}
	t.noteBoxes(note)
	tellRefusals(t.Refused, func(line string) { note("%s", line) })
	if t.Faults > 0 {
		note("%s be read; pipefs info lists them", plural(t.Faults, "sample cannot", "samples cannot"))
	}
}
