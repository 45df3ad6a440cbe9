package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mounts"
)

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
		fmt.Fprintf(&b, "\n  process %d (%s) %s", p.PID, p.Name, p.Uses)
	}
	if len(users) == 0 {
		b.WriteString("\n  no process that you may see; root sees all")
	}
	return exit.Errorf(exit.Mount, "%s is busy:%s\nend them and try again, or take the mount away under them: pipefs umount --lazy %s", dir, b.String(), dir)
}
