package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// looked is the number of samples that are looked at where there are many more.
const looked = 20_000

func viewsCommand(env *environ) *cli.Command {
	var all, steps, asJSON bool
	var roles transcode.Roles
	var limits transcode.Limits
	var access remote.Access
	return &cli.Command{
		Name: "views", ArgsUsage: "DATASET|STORE [VIEW…]", Category: everyday, Usage: "show what the views of a dataset contain",
		Description: "For the usual views, or for each VIEW: how many samples it changes, how many it leaves unchanged, the total size if it is known in advance, and an example path. Reads the headers of samples, and the pixels of some grey and palette images.",
		UsageText: `pipefs views ~/imagenet
pipefs views ~/scenes resize512-png --masks '**/labels/*.png'
pipefs views --steps      # the steps of which views are made`,
		Flags: slices.Concat(roleFlags(&roles), []cli.Flag{
			&cli.BoolFlag{Name: "all", Destination: &all, Usage: fmt.Sprintf("look at every sample (default: at %s of them)", human.Count(looked))},
			&cli.BoolFlag{Name: "steps", Destination: &steps, Usage: "list the steps of which views are made"},
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"},
		}, remoteFlags(&access), limitFlags(&limits)),
		Action: takes(0, math.MaxInt, func(ctx context.Context, args []string) error {
			if steps {
				printSteps(env.stdout, codecs.Default(limits))
				return nil
			}
			if len(args) == 0 {
				return exit.Errorf(exit.Usage, "views needs a dataset or a store: pipefs views ~/imagenet (or --steps)")
			}
			s, err := openSource(ctx, env, mountd.SourceOptions{Path: args[0], Remote: access, Roles: roles, Limits: limits})
			if err != nil {
				return err
			}
			defer s.Close()
			t := &tally{of: s, roles: roles}
			specs := args[1:]
			if len(specs) == 0 {
				specs = mountd.UsualViews(s.Registry)
			}
			for _, spec := range mountd.Unique(specs) {
				p, err := s.Registry.ParsePath(spec)
				if err != nil {
					return err
				}
				v := &viewTally{Pipeline: p, View: spec, Exact: true, Spared: s.Server.NewSpared(p)}
				if p.Random() {
					v.Validation = p.Validation()
				}
				t.views = append(t.views, v)
			}
			found, err := t.count(ctx, env, all)
			if err != nil {
				return err
			}
			t.search(ctx, s, found, t.samples, roles)
			if t.Refused, err = s.Server.Refusals(ctx, t.samples, t.pipelines()); err != nil {
				return err
			}
			if len(args) == 1 {
				t.dropUnfit()
			}
			if err := t.name(); err != nil {
				return err
			}
			if asJSON {
				return terminal.PrintJSON(env.stdout, t)
			}
			if t.Samples == 0 {
				fmt.Fprintf(env.stderr, "pipefs: note: %s\n", noPictures(t.listed, s.Path))
				return nil
			}
			t.print(env.stdout)
			return nil
		}),
	}
}

func printSteps(w io.Writer, r *transcode.Registry) {
	t := terminal.Table(w, "step", "argument", "what it does")
	for _, k := range r.Kinds() {
		if k.Name == "decode" { // implied, and never written
			continue
		}
		argument := ""
		if k.Max != 0 {
			argument = fmt.Sprintf("%d to %d", k.Min, k.Max)
		}
		t.AppendRow(table.Row{k.Name, argument, k.Brief})
		for _, w := range k.Words {
			name, numbers := w.Name, ""
			if w.Max != 0 {
				name, numbers = w.Name+"AtoB", fmt.Sprintf("%d to %d", w.Min, w.Max)
			}
			t.AppendRow(table.Row{"  …" + name, numbers, "attached to " + k.Name + ": " + w.Brief})
		}
	}
	t.Render()
	fmt.Fprintln(w, "A view joins steps by hyphens: resize256-grey-png. Where a step needs pixels they\nare decoded without saying so. A view lists its files with the extension of what\nthey are; with the word own at its end it lists them under their own names: bmp-own.\nBegun with the word stored, a view shows only what is materialized (pipefs\nmaterialize) as the steps make it, and the other files as they are, all under their\nown names: stored-bmp.")
}

func (t *tally) print(w io.Writer) {
	out := terminal.Table(w, "view", "files", "changed", "unchanged", "size", "for example", "may be masks")
	terminal.Right(out, 3, 4, 5, 7)
	unknown := false
	for _, v := range t.views {
		size := "–"
		switch {
		case v.Exact:
			size = human.Size(v.Bytes)
		default:
			unknown = true
		}
		ext := ""
		if v.Ext != "" {
			ext = "." + v.Ext
		}
		out.AppendRow(table.Row{v.View, ext, human.Count(v.Changed), human.Count(v.Unchanged), size, v.Example, human.Count(v.Spared.Samples)})
	}
	out.Render()
	fmt.Fprintf(w, "%s, %s\n", human.Plural(t.Samples, "sample", "samples"), human.Plural(t.Others, "other file, shown as it is", "other files, shown as they are"))
	fmt.Fprintf(w, "train from %s\n", "MNT/"+strings.Join(t.Recommended, " or MNT/"))
	note := func(format string, args ...any) { terminal.Note(w, format, args...) }
	if text := t.gaps().Describe(); text != "" {
		note("%s", text)
	}
	if t.Looked < t.Samples {
		note("counted on %s of them, evenly spread; --all looks at every one", human.Plural(t.Looked, "sample", "samples"))
	} else if unknown {
		note("– is a size that is not known before the files are made")
	}
	t.noteTurned(note)
	for _, v := range t.views {
		if text := v.Spared.String(); text != "" {
			note("%s", text)
		}
	}
	if t.Unread > 0 {
		note("%s unchanged in every view, such as %s: %s; pipefs info lists them", human.Plural(t.Unread, "sample appears", "samples appear"), t.example.Path, t.example.Unread)
	}
	t.noteRandom(note)
	t.noteBoxes(note)
	tellRefusals(t.Refused, func(line string) { note("%s", line) })
	if t.Faults > 0 {
		note("%s be read; pipefs info lists them", human.Plural(t.Faults, "sample cannot", "samples cannot"))
	}
}
