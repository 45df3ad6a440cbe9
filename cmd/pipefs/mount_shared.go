package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
)

// lingering is how long a shared mount stays for the one whom this command tells of it.
const lingering = 15 * time.Second

// holding is what a holder is told of its mount.
type holding struct {
	Mount  string `json:"mount"`
	Socket string `json:"socket"`
	PID    int    `json:"pid"`
}

// share holds the mount that was asked for, which it makes if it is not there.
func (c *mountConfig) share(ctx context.Context, env *environ) error {
	if c.holder > 0 {
		unix.CloseOnExec(c.holder) // the daemon must not have it
	}
	place, err := c.place(ctx)
	if err != nil {
		return err
	}
	lock, err := place.Lock(ctx, func() {
		fmt.Fprintf(env.stderr, "pipefs: waiting for another process that mounts %s\n", c.Source)
	})
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer lock.Release()
	c.Dir = place.Dir
	conn, reply, err := place.Hold(ctx, c.linger())
	if errors.Is(err, control.ErrNotMounted) {
		if conn, reply, err = c.startShared(ctx, env, place); err != nil {
			place.Remove()
		}
	}
	if err != nil {
		return exit.With(exit.Mount, err)
	}
	defer conn.Close()
	return c.tellHolder(env, conn, holding{reply.Mount, conn.RemoteAddr().String(), reply.PID})
}

// linger is how long the mount stays when this command has ended.
func (c *mountConfig) linger() time.Duration {
	if c.holder > 0 {
		return 0
	}
	return lingering
}

// startShared mounts at a place, and holds the mount.
func (c *mountConfig) startShared(ctx context.Context, env *environ, place *control.Place) (*net.UnixConn, control.Reply, error) {
	var none control.Reply
	if err := place.Make(); err != nil {
		return nil, none, exit.With(exit.System, err)
	}
	c.Shared = place.Key
	if err := c.start(ctx, env); err != nil {
		return nil, none, err
	}
	return place.Hold(ctx, c.linger())
}

// place is where the mount lies.
func (c *mountConfig) place(ctx context.Context) (*control.Place, error) {
	if c.foreground || c.dryRun || c.SetUID != "" {
		return nil, exit.Errorf(exit.Usage, "--shared mounts in the background, for the user who asks: leave out --foreground, --dry-run and --setuid")
	}
	key, err := c.key(ctx)
	if err != nil {
		return nil, exit.With(exit.Mount, err)
	}
	if c.Dir == "" {
		place, err := control.ChosenPlace(key, filepath.Base(c.Source))
		return place, exit.With(exit.System, err)
	}
	dir, err := mounts.Resolve(c.Dir)
	if err != nil {
		return nil, exit.With(exit.Mount, err)
	}
	place, err := control.PlaceAt(key, dir)
	return place, exit.With(exit.System, err)
}

// key names the source, which it resolves, and the options: what has another key is
// another mount.
func (c *mountConfig) key(ctx context.Context) (string, error) {
	source, err := mountd.ResolveSource(ctx, c.Remote, c.Source)
	if err != nil {
		return "", err
	}
	c.Source = source
	what := []string{mountd.Version(), source}
	if !remote.Is(source) {
		info, err := mounts.Stat(source)
		if err != nil {
			return "", err
		}
		st := info.Sys().(*syscall.Stat_t)
		what = append(what, fmt.Sprint(st.Dev, st.Ino))
	}
	// What says nothing about what the mount shows, or is another one in each process.
	shows := mountConfig{Config: c.Config}
	shows.Source, shows.Dir, shows.LogFile = "", "", ""
	if !c.seedGiven {
		shows.Views.Seed = 0
	}
	said, err := json.Marshal(shows)
	return control.ShareKey(append(what, string(said))...), err
}

// tellHolder prints where the mount is, or hands the connection on.
func (c *mountConfig) tellHolder(env *environ, conn *net.UnixConn, h holding) error {
	if c.holder == 0 {
		_, err := fmt.Fprintln(env.stdout, h.Mount)
		return exit.With(exit.System, err)
	}
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	file, err := conn.File()
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer file.Close()
	if err := unix.Sendmsg(c.holder, append(line, '\n'), unix.UnixRights(int(file.Fd())), nil, unix.MSG_NOSIGNAL); err != nil {
		return exit.With(exit.System, fmt.Errorf("--holder %d: %w", c.holder, os.NewSyscallError("sendmsg", err)))
	}
	return nil
}
