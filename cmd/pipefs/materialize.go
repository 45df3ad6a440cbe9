package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// materializeConfig is all that a materializing can be told.
type materializeConfig struct {
	store, view string
	fraction    float64 // 0 to 1
	dataset     string
	workers     int
	maxBytes    int64
	verify      bool
	remote      remote.Access
	roles       transcode.Roles
	limits      transcode.Limits
}

// decodeWord is what papers call the step whose result is kept; its plainest file
// is that of bmp.
const decodeWord = "decode"

func materializeCommand(env *environ) *command {
	c := &materializeConfig{fraction: 1}
	options := slices.Concat([]*option{
		{name: "fraction", arg: "F", def: "1", set: intoShare(&c.fraction),
			help: "of the samples, such as 0.3, 30% or 3/10: as many of each class, evenly spread, and always the same ones first, so that a larger fraction adds samples and a smaller one removes some. 0 removes all"},
		{name: "max-bytes", arg: "SIZE", set: intoSize(&c.maxBytes, 1), help: "do nothing if the fraction would take more on disk: 50GB"},
		{name: "verify", set: intoBool(&c.verify), help: "read all that is there, and make again what is damaged"},
		{name: "dataset", arg: "DIR", path: true, set: intoString(&c.dataset),
			help: "where the dataset of the store is, for originals that the store cannot give back"},
		{name: "workers", arg: "N", def: "one a core", set: intoInt(&c.workers, 1, 4096), help: "results that are made at once"},
	}, roleOptions(&c.roles), remoteOptions(&c.remote), limitOptions(&c.limits))
	return &command{
		name: "materialize", args: "STORE [VIEW]", min: 1, max: 2,
		brief: "keep a view of some or all samples in a store",
		about: "What is kept need not be made when it is read. Of the samples that belong to the fraction the store then holds the view's files; a mount reads those and makes the others, and nobody can tell which is which but by the time that it takes. Raw pixels (bmp, ppm) load the disk instead of the processor: keep as large a fraction of them as keeps both busy (pipefs tune finds it). `decode` is another word for bmp.\n" +
			"The store can stay mounted meanwhile; what is new is used from the next mount on. Where a run was interrupted the same command goes on. Without VIEW it lists what is kept.",
		examples: []example{
			{"pipefs materialize /data/in.store bmp --fraction 0.3", "keep the raw pixels of 30% of the samples"},
			{"pipefs materialize /data/in.store resize256-jpeg90 --max-bytes 20GB", "keep a view that takes long to make, of all samples, if it is not too large"},
			{"pipefs materialize /data/in.store", "list what is kept"},
			{"pipefs materialize /data/in.store bmp --fraction 0", "remove it"},
		},
		words:   []string{"sample", "view", "store", "mask"},
		options: options,
		run: func(ctx context.Context, args []string) (err error) {
			if c.store, err = remote.Place(args[0]); err != nil {
				return err
			}
			if len(args) == 1 {
				for _, o := range options {
					if o.isSet() {
						return exit.Errorf(exit.Usage, "--%s needs a view: pipefs materialize %s bmp --%[1]s …; without one this lists what is kept", o.name, args[0])
					}
				}
				return listFractions(ctx, env, c)
			}
			if remote.Is(c.store) {
				return errWritten("pipefs materialize", c.store, "materialize a copy in a directory of this machine; without a view this lists what is kept there")
			}
			if c.view = args[1]; c.view == decodeWord {
				c.view = "bmp"
			}
			return runMaterialize(ctx, env, c)
		},
	}
}

func runMaterialize(ctx context.Context, env *environ, c *materializeConfig) error {
	m, err := openMaterializer(ctx, env, c)
	if err != nil {
		return err
	}
	defer m.Close()
	if c.fraction == 0 {
		return m.remove()
	}
	m.bar = newProgress(env, "looking at samples", int(m.Store.Stats().Samples))
	err = m.choose(ctx)
	m.bar.done()
	if err == nil {
		noteSpared(env.stderr, m.chosen.Spared)
	}
	if err == nil && m.chosen.Samples == 0 {
		return m.nothing()
	}
	var report store.FractionReport
	if err == nil {
		report, err = m.run(ctx)
	}
	if err != nil {
		return m.explain(report, err)
	}
	m.tell(env.stdout, report)
	// Samples that are damaged will be so the next time, and readers are told.
	if failed := report.Failed - m.damaged; failed > 0 {
		return exit.Errorf(exit.System, "%s could not be made; the same command tries again, and keeps the others", plural(failed, "result", "results"))
	}
	return nil
}

// nothing says why there is nothing to keep.
func (m *materializer) nothing() error {
	if n := m.chosen.Stored; n > 0 {
		fmt.Fprintf(m.env.stdout, "nothing to keep: the store itself holds %s as %s shows them\n", plural(n, "sample", "samples"), m.view)
		return nil
	}
	why := "it has no samples"
	if n := m.chosen.Unchanged + m.chosen.Faulty; n > 0 {
		why = fmt.Sprintf("%s shows %s unchanged", m.view, plural(n, "sample", "samples"))
		if m.chosen.Faulty > 0 {
			why += fmt.Sprintf(", %s of which no codec can read", formatCount(m.chosen.Faulty))
		}
	}
	return exit.Errorf(exit.Usage, "there is nothing to keep in %s: %s (pipefs views %[1]s lists what views show)", m.config.store, why)
}

// explain tells how to go on.
func (m *materializer) explain(r store.FractionReport, err error) error {
	dir := m.config.store
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted after %s; what was made is kept, and the same command goes on from there", plural(r.Made, "result", "results"))
	case errors.Is(err, serve.ErrRefused):
		return exit.With(exit.Usage, err)
	case errors.Is(err, store.ErrLocked):
		return exit.Errorf(exit.System, "another pipefs pack or materialize writes to %s; wait for it to end", dir)
	case errors.Is(err, store.ErrChanged):
		return exit.Errorf(exit.System, "%s was packed again meanwhile; run the same command again", dir)
	case errors.Is(err, store.ErrVersion):
		return exit.Errorf(exit.System, "%w; use that version, or remove the directory to make it again", err)
	}
	if refused := (*exit.Error)(nil); errors.As(err, &refused) {
		return err
	}
	return fmt.Errorf("materializing %s in %s: %w", m.view, dir, err)
}

func (m *materializer) tell(w io.Writer, r store.FractionReport) {
	have := r.Made + r.Kept
	if have == 0 && r.Failed == 0 {
		fmt.Fprintf(w, "%s of %s is none: nothing is kept\n", formatShare(m.config.fraction), plural(m.chosen.Samples, "sample", "samples"))
		return
	}
	fmt.Fprintf(w, "%s is kept of %s of %s samples (%s)\n", m.view, formatCount(have), formatCount(m.chosen.Samples),
		formatShare(float64(have)/float64(m.chosen.Samples)))
	fmt.Fprintf(w, "made %s, kept %s that were there, removed %s; %s written in %s\n", plural(r.Made, "result", "results"), formatCount(r.Kept),
		formatCount(r.Dropped), formatSize(r.Bytes), time.Since(m.started).Round(100*time.Millisecond))
	for _, n := range []struct {
		count int
		text  string
	}{
		{m.chosen.Unchanged, "shown unchanged, and not counted"},
		{m.chosen.Stored, "in the store as the view shows them, and not counted"},
		{m.chosen.Faulty, "that no codec can read, and not counted"},
		{int(m.damaged), "whose pixels are damaged, left out"},
	} {
		if n.count > 0 {
			fmt.Fprintf(w, "note: %s %s\n", plural(n.count, "sample", "samples"), n.text)
		}
	}
}

// fractionRow is a fraction as it is listed.
type fractionRow struct {
	View    string  `json:"view"`
	Wanted  float64 `json:"fraction"` // that was asked for, 0 to 1
	Results int64   `json:"results"`
	OfAll   float64 `json:"of_all_samples"` // 0 to 1
	Bytes   int64   `json:"bytes"`
}

// fractionRows are those of a store with so many samples.
func fractionRows(s *store.Store, samples int) []fractionRow {
	rows := []fractionRow{}
	for _, f := range s.Fractions() {
		row := fractionRow{View: f.Spec(), Wanted: f.Share(), Results: f.Count(), Bytes: f.Bytes()}
		if samples > 0 {
			row.OfAll = float64(row.Results) / float64(samples)
		}
		rows = append(rows, row)
	}
	return rows
}

func printFractions(w io.Writer, rows []fractionRow) {
	t := newTable(w, "kept view", "fraction", "samples", "of all", "bytes")
	for _, r := range rows {
		t.AppendRow(table.Row{r.View, formatShare(r.Wanted), formatCount(r.Results), formatShare(r.OfAll), formatSize(r.Bytes)})
	}
	right(t, 2, 3, 4, 5)
	t.Render()
}

func listFractions(ctx context.Context, env *environ, c *materializeConfig) error {
	s, err := openSource(ctx, env, mountd.SourceOptions{Path: c.store, Remote: c.remote, StoreOnly: true, Limits: c.limits})
	if err != nil {
		return err
	}
	defer s.Close()
	if len(s.Store.Fractions()) == 0 {
		fmt.Fprintf(env.stdout, "no view is kept; pipefs materialize %s bmp --fraction 0.3 keeps the raw pixels of 30%% of the samples\n", c.store)
		return nil
	}
	l, err := s.List(ctx, nil)
	if err != nil {
		return err
	}
	printFractions(env.stdout, fractionRows(s.Store, len(l.Samples)))
	return nil
}
