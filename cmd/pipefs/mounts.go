package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/terminal"
)

func mountsCommand(env *environ) *cli.Command {
	var asJSON, clean bool
	return &cli.Command{
		Name: "mounts", ArgsUsage: "", Category: everyday, Usage: "list the mounts, and unmount dead ones",
		Description: "Lists your mounts, or all mounts if you are root. Mounts of containers and other mount namespaces are not visible. A mount whose daemon is dead or does not answer is listed with what to do.",
		UsageText: `pipefs mounts
pipefs mounts --clean      # unmount dead mounts`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"},
			&cli.BoolFlag{Name: "clean", Destination: &clean, Usage: "unmount dead mounts; programs that hang in them get an error"},
		},
		Action: takes(0, 0, func(ctx context.Context, _ []string) error {
			rows, err := mountRows(ctx)
			if err != nil {
				return err
			}
			if clean {
				if rows, err = cleanMounts(env, rows); err != nil {
					return err
				}
			}
			if asJSON {
				return terminal.PrintJSON(env.stdout, rows)
			}
			printMounts(env.stdout, rows, time.Now())
			return nil
		}),
	}
}

// cleanMounts takes dead mounts away, and returns the other ones.
func cleanMounts(env *environ, rows []mountRow) (left []mountRow, err error) {
	for _, r := range rows {
		if r.State != mountDead {
			left = append(left, r)
			continue
		}
		cleared := false
		place, e := mounts.PlaceOf(r.Mount)
		if e == nil {
			cleared, e = place.ClearDead()
		}
		if e != nil {
			err = errors.Join(err, unmountError(e))
		}
		if !cleared {
			continue
		}
		fmt.Fprintf(env.stderr, "pipefs: unmounted %s, whose daemon was gone\n", r.Mount)
	}
	return left, err
}

// The states of a mount.
const (
	mountUp     = "up"
	mountDead   = "dead"   // its daemon is gone
	mountSilent = "silent" // its daemon does not answer
	mountClosed = "closed" // its daemon answers somebody else only
	mountLost   = "lost"   // its dataset or store was deleted
)

// mountRow is a mount and what its daemon says of it.
type mountRow struct {
	Mount   string    `json:"mount"`
	Source  string    `json:"source"`
	State   string    `json:"state"`
	PID     int       `json:"pid,omitempty"`
	Version string    `json:"version,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Current string    `json:"current,omitempty"`
	Cache   string    `json:"cache,omitempty"`
	Holders *int      `json:"holders,omitempty"` // of a shared mount
	// Supervised is what the parent of the daemon says; nil where there is none.
	Supervised *control.Supervised `json:"supervised,omitempty"`
	Do         string              `json:"do,omitempty"` // where it is not up
}

// mountRows asks the daemons of all mounts that are of this user's business.
func mountRows(ctx context.Context) ([]mountRow, error) {
	table, err := mounts.Within("/")
	if err != nil {
		return nil, err
	}
	rows := []mountRow{}
	for i, m := range table {
		// of several on top of each other the last one is seen
		hidden := slices.ContainsFunc(table[i+1:], func(o *mounts.Mount) bool { return o.Mountpoint == m.Mountpoint })
		uid, known := m.Owner()
		if m.Ours() && !hidden && (os.Geteuid() == 0 || !known || uid == os.Geteuid()) {
			rows = append(rows, mountRow{Mount: m.Mountpoint, Source: m.Source})
		}
	}
	slices.SortFunc(rows, func(a, b mountRow) int { return strings.Compare(a.Mount, b.Mount) })
	var work errgroup.Group // one that hangs must not keep the others waiting
	work.SetLimit(32)
	for i := range rows {
		work.Go(func() error {
			rows[i].ask(ctx)
			return nil
		})
	}
	return rows, errors.Join(work.Wait(), ctx.Err())
}

// ask fills in what the daemon says, or what to do where it says nothing.
func (r *mountRow) ask(ctx context.Context) {
	place, err := mounts.PlaceOf(r.Mount)
	if err == nil {
		err = mounts.Probe(r.Mount)
	}
	switch {
	case place.Dead(err):
		r.State, r.Do = mountDead, "pipefs umount "+shellWord(r.Mount)+", or mount there again"
		return
	case mounts.Hung(err):
		r.State, r.Do = mountSilent, "look at the disk of its dataset; to give it up: pipefs umount --force "+shellWord(r.Mount)
		return
	}
	client, err := control.Find(r.Mount)
	var reply control.Reply
	if err == nil {
		reply, err = client.Do(ctx, control.Request{Op: control.OpStats})
	}
	if s := reply.Stats; err == nil && s != nil {
		r.State, r.PID, r.Version, r.Started, r.Current, r.Cache, r.Holders = mountUp, s.PID, s.Version, s.Started, s.Current, s.Cache, s.Holders
		r.Supervised = s.Supervised
		if s.Lost != "" {
			r.State, r.Do = mountLost, s.Lost
		}
		return
	}
	r.State, r.Do = mountClosed, "its daemon cannot be asked"
	if err != nil {
		r.Do += ": " + err.Error()
	}
}

func printMounts(w io.Writer, rows []mountRow, now time.Time) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "nothing is mounted; pipefs mount DATASET MNT mounts")
		return
	}
	t := terminal.Table(w, "mount", "source", "process", "up", "current", "cache", "held by", "supervised", "version")
	for _, r := range rows {
		if r.State != mountUp {
			t.AppendRow(table.Row{r.Mount, r.Source, r.State})
			continue
		}
		holders := ""
		if r.Holders != nil {
			holders = human.Plural(*r.Holders, "connection", "connections")
		}
		kept := ""
		if s := r.Supervised; s != nil {
			kept = "yes, " + human.Plural(s.Restarts, "restart", "restarts")
		}
		t.AppendRow(table.Row{r.Mount, r.Source, r.PID, now.Sub(r.Started).Round(time.Second), r.Current, r.Cache, holders, kept, r.Version})
	}
	t.Render()
	for _, r := range rows {
		if r.Do != "" {
			terminal.Note(w, "%s is %s: %s", r.Mount, r.State, r.Do)
		}
	}
}
