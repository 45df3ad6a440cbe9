package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/store"
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
				return human.PrintJSON(env.stdout, rows)
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
	t := human.Table(w, "mount", "source", "process", "up", "current", "cache", "held by", "supervised", "version")
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
			human.Note(w, "%s is %s: %s", r.Mount, r.State, r.Do)
		}
	}
}

// untilGone is how long a daemon may take to end once its mount is gone: it writes
// out what it keeps.
const untilGone = 30 * time.Second

func umountCommand(env *environ) *cli.Command {
	var lazy, force bool
	return &cli.Command{
		Name: "umount", ArgsUsage: "MNT", Category: everyday, Usage: "unmount, and wait for the daemon to end",
		Description: "Works for root and for the user who mounted. umount(8) and fusermount3 -u do the same, but do not wait, and do not name the processes that keep the mount busy.",
		UsageText: `pipefs umount ~/m
pipefs umount --force ~/m      # end a mount that hangs`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "lazy", Aliases: []string{"l"}, Destination: &lazy, Usage: "detach a busy mount; the daemon ends with the last open file"},
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Destination: &force, Usage: "end the mount at once; programs that read from it get an error"},
		},
		Action: takes(1, 1, func(ctx context.Context, args []string) error { return umount(ctx, env, args[0], lazy, force) }),
	}
}

func umount(ctx context.Context, env *environ, path string, lazy, force bool) error {
	dir, err := mounts.Resolve(path)
	if err != nil {
		return exit.With(exit.Mount, err)
	}
	at, err := mounts.At(dir)
	switch {
	case err != nil:
		return err
	case at == nil:
		return notMounted(dir)
	case !at.Ours():
		return exit.Errorf(exit.Mount, "%s is a mount of type %s, not one of pipefs; take umount for it", dir, at.FSType)
	}
	place, err := mounts.PlaceOf(dir)
	if err != nil {
		return err
	}
	if force {
		return umountByForce(ctx, dir, place)
	}
	if dead, err := place.ClearDead(); err != nil {
		return unmountError(err)
	} else if dead {
		fmt.Fprintf(env.stderr, "pipefs: the daemon of %s was gone already\n", dir)
		return nil
	}
	// The daemon has to be found before its mount is gone. Not finding it is no
	// reason not to unmount.
	daemon := daemonOf(ctx, dir)
	if daemon != nil {
		defer daemon.Close()
	}
	// This process must not be what keeps the mount busy.
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unmount(ctx, dir, lazy); err != nil {
		if errors.Is(err, mounts.ErrBusy) {
			return busy(dir)
		}
		return unmountError(err)
	}
	if !lazy {
		return outlast(daemon, dir)
	}
	return nil
}

// outlast waits until a daemon has ended, if it is known.
func outlast(daemon *control.Daemon, dir string) error {
	if daemon != nil && !daemon.Wait(untilGone) {
		return exit.Errorf(exit.System, "%s is unmounted, but its daemon, process %d, has not ended within %v", dir, daemon.PID, untilGone)
	}
	return nil
}

// umountByForce ends the connection of a mount, and asks the mount nothing: it may hang.
func umountByForce(ctx context.Context, dir string, place mounts.Place) error {
	var daemon *control.Daemon
	if socket, err := control.Socket(dir); err == nil {
		if daemon, err = control.At(dir, socket).Daemon(ctx); err == nil {
			defer daemon.Close()
		}
	}
	if err := place.Clear(); err != nil {
		return unmountError(err)
	}
	return outlast(daemon, dir)
}

// unmount tries again for a moment where the mount is busy and no process uses it: somebody
// looked at it, as pipefs mounts and df do.
func unmount(ctx context.Context, dir string, lazy bool) error {
	const moment = time.Second
	until := time.Now().Add(moment)
	for {
		err := mounts.Unmount(dir, lazy)
		if !errors.Is(err, mounts.ErrBusy) || time.Now().After(until) || ctx.Err() != nil || len(mounts.Users(dir, 1)) > 0 {
			return err
		}
		time.Sleep(moment / 50)
	}
}

func unmountError(err error) error {
	if errors.Is(err, mounts.ErrRefused) {
		return exit.With(exit.Usage, err)
	}
	return exit.With(exit.Mount, err)
}

func daemonOf(ctx context.Context, dir string) *control.Daemon {
	client, err := control.Find(dir)
	if err != nil {
		return nil
	}
	daemon, err := client.Daemon(ctx)
	if err != nil {
		return nil
	}
	return daemon
}

func notMounted(dir string) error {
	if _, err := mounts.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.Mount, "%s does not exist", dir)
	}
	if in, err := mounts.Holding(dir); err == nil && in != nil && in.Ours() {
		return exit.Errorf(exit.Mount, "%s is not a mount, but lies inside of one: pipefs umount %s", dir, in.Mountpoint)
	}
	return exit.Errorf(exit.Mount, "%s is not mounted (pipefs mounts lists what is)", dir)
}

// busy names those who use a mount.
func busy(dir string) error {
	const most = 5
	users := mounts.Users(dir, most+1)
	var b strings.Builder
	for i, p := range users {
		if i == most {
			b.WriteString("\n  and others")
			break
		}
		fmt.Fprintf(&b, "\n  process %d (%s) %s", p.PID, human.Line(p.Name), human.Line(p.Uses))
	}
	if len(users) == 0 {
		b.WriteString("\n  no process that you may see; root sees all")
	}
	return exit.Errorf(exit.Mount, "%s is busy:%s\nend them and try again, or take the mount away under them: pipefs umount --lazy %s", dir, b.String(), dir)
}

// askSwapped refuses the arguments of a command if the source is a place for the target, and the
// target holds pictures.
func askSwapped(ctx context.Context, command, source, target string) error {
	if remote.Is(source) || remote.Is(target) {
		return nil
	}
	isStore := func(dir string) bool {
		is, err := store.Is(dir)
		return err == nil && is
	}
	what, holds := vacant(source), "holds pictures"
	if command == "pack" && isStore(source) {
		what = "is a store"
	}
	if what == "" {
		return nil
	}
	switch l, _ := lookInto(ctx, target); {
	case command == "mount" && isStore(target):
		holds = "is a store"
	case len(l.Samples) == 0:
		return nil
	}
	return exit.Errorf(exit.Usage, "%s %s, and %s %s; did you mean: pipefs %s %s %s", source, what, target, holds, command, shellWord(target), shellWord(source))
}

// vacant says that a path does not exist, or is an empty directory; "" is anything else.
func vacant(path string) string {
	d, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "does not exist"
	}
	if err != nil {
		return ""
	}
	defer d.Close()
	if _, err := d.Readdirnames(1); errors.Is(err, io.EOF) {
		return "is an empty directory"
	}
	return ""
}
