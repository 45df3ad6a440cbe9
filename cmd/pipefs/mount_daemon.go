package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/daemon"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/supervise"
	"github.com/pipefs/pipefs/transcode"
)

// ownerUser is the value of --setuid that stands for the owner of what is mounted.
const ownerUser = "owner"

// notice is how long a mount may take until the user is told what takes so long.
const notice = 5 * time.Second

// runMount checks what is asked for, and mounts.
func runMount(ctx context.Context, env *environ, c *mountConfig, options []*option) (err error) {
	if c.Kernel.Premount, err = mountd.TakeOver(); err != nil {
		return err
	}
	handed, err := supervise.Take()
	if err != nil {
		return err
	}
	// Where another process waits for this one, or was this one, it has checked everything.
	if parent := daemon.Waiting(); parent != nil || c.Kernel.Premount != nil {
		if handed != nil {
			err = c.serveSupervised(ctx, handed, parent)
		} else {
			err = serveAsUser(ctx, c, options, parent)
		}
		if err != nil {
			parent.Fail(err, int(exit.Of(classify(err))))
		}
		return err
	}
	if c.shared {
		return c.share(ctx, env, options)
	}
	return c.start(ctx, env, options)
}

// start mounts: in the background, as a child process that runs the same command again.
func (c *mountConfig) start(ctx context.Context, env *environ, options []*option) error {
	if os.Geteuid() == 0 && c.Kernel.AllowOther && !lookup(options, "no-follow").isSet() {
		if err := lookup(options, "no-follow").Set("true"); err != nil {
			return err
		}
	}
	if err := c.checkSupervise(options); err != nil {
		return err
	}
	if err := c.resolve(); err != nil {
		return err
	}
	dead, err := c.check(ctx, env)
	if err != nil {
		return err
	}
	user, err := c.user()
	if err != nil {
		return err
	}
	c.notes(env.stderr, user)
	if user != nil {
		c.tellUser(env.stderr, user)
	}
	if c.dryRun {
		return nil
	}
	if dead {
		if err := clearDead(env, c); err != nil {
			return err
		}
	}
	if c.foreground {
		return serveAsUser(ctx, c, options, nil)
	}
	return background(ctx, env, c, options)
}

// user is whom the daemon becomes before it opens anything; nil where it stays who it
// is.
func (c *mountConfig) user() (*daemon.User, error) {
	if c.setuid == "" || c.setuid == ownerUser && os.Geteuid() != 0 {
		return nil, nil
	}
	if c.setuid != ownerUser {
		u, err := daemon.LookupUser(c.setuid)
		switch {
		case err != nil:
			return nil, exit.Errorf(exit.Usage, "--setuid %s: %w", c.setuid, err)
		case u.UID == os.Geteuid():
			return nil, nil
		case os.Geteuid() != 0:
			return nil, exit.Errorf(exit.Usage, "--setuid %s: only root can become another user", c.setuid)
		}
		return u, nil
	}
	if remote.Is(c.Source) {
		return nil, nil // nobody of this machine owns it
	}
	info, err := mounts.Stat(c.Source)
	if err != nil {
		return nil, exit.With(exit.Mount, err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid == 0 {
		return nil, nil
	}
	u, err := daemon.LookupUser(strconv.Itoa(int(st.Uid)))
	if err != nil { // files may belong to a user whom this machine does not know
		u = &daemon.User{Name: strconv.Itoa(int(st.Uid)), UID: int(st.Uid), GID: int(st.Gid)}
	}
	return u, nil
}

// tellUser says what a daemon cannot do that gives up root.
func (c *mountConfig) tellUser(w io.Writer, u *daemon.User) {
	without := ""
	if c.Cache.Mode == pfs.DaemonCache {
		without = "; kept files are read through the daemon, since passthrough takes root"
	}
	fmt.Fprintf(w, "pipefs: the daemon runs as user %s, and serves what that user may read%s (--setuid root keeps root)\n", u.Name, without)
}

// background starts the daemon and waits until its mount answers.
func background(ctx context.Context, env *environ, c *mountConfig, options []*option) error {
	path := c.LogFile
	if path == "" {
		var err error
		if path, err = mountd.LogPath(c.Dir); err != nil {
			return exit.With(exit.System, err)
		}
	}
	file, err := openLog(path)
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer file.Close()
	if c.LogFile == "" {
		// so that the daemon can tell, in its statistics, where it logs to
		if err := lookup(options, "log-file").Set(path); err != nil {
			return err
		}
	}
	err = daemon.Start(ctx, daemon.Child{
		Args: daemonArgs(c, options),
		Log:  file, Patience: c.patience, Notice: notice,
		Say:  func(status string) { fmt.Fprintf(env.stderr, "pipefs: waiting for %s\n", status) },
		Tell: func(text string) { fmt.Fprintf(env.stderr, "pipefs: note: %s\n", text) },
	})
	if err != nil {
		if mounts.Dead(mounts.Probe(c.Dir)) {
			// A daemon that became another user may not be able to unmount.
			err = errors.Join(err, mounts.Unmount(c.Dir, true))
		}
		return fmt.Errorf("%w\n(log: %s)", startError(err), path)
	}
	fmt.Fprintf(env.stderr, "pipefs: mounted %s on %s (log: %s)\n", c.Source, c.Dir, path)
	if !c.shared { // whoever holds it knows
		c.tellNext(env.stderr)
	}
	return nil
}

// startError gives the errors of a daemon in the background their codes.
func startError(err error) error {
	var failure *daemon.Failure
	switch {
	case errors.As(err, &failure):
		return exit.With(exit.Code(failure.Code), err)
	case errors.As(err, new(*daemon.SilentError)):
		return exit.With(exit.Internal, err)
	case errors.Is(err, context.Canceled):
		return exit.With(exit.Interrupted, err)
	}
	return exit.With(exit.Mount, err)
}

// daemonArgs is the command line of the daemon, which works in /: everything in it was
// resolved, and the options of -o were set one by one.
func daemonArgs(c *mountConfig, options []*option) []string {
	var kept []*option
	for _, o := range options {
		if o.name != "o" && o.name != "foreground" && o.name != "holder" && (!c.supervising || o.name != "supervise" && o.name != "deaths" && o.name != "hung") {
			kept = append(kept, o)
		}
	}
	args := append([]string{"pipefs", "mount"}, again(kept)...)
	return append(args, "--", c.Source, c.Dir)
}

// serveAsUser is the daemon, which gives up root first if it is told to.
func serveAsUser(ctx context.Context, c *mountConfig, options []*option, parent *daemon.Parent) error {
	user, err := c.user()
	if err != nil {
		return err
	}
	out := os.Stderr
	if c.LogFile != "" && c.Kernel.Premount == nil {
		if out, err = openLog(c.LogFile); err != nil {
			return exit.With(exit.System, err)
		}
		defer out.Close()
	}
	if c.supervise {
		leave, err := c.leave()
		if err != nil {
			return err
		}
		defer leave()
		c.supervising = true
		return c.superviseMount(ctx, options, user, out, parent)
	}
	if user != nil {
		// The other user may not be able to open the log.
		if err := unix.Dup3(int(out.Fd()), 2, 0); err != nil && out != os.Stderr {
			return fmt.Errorf("log: %w", err)
		}
		return exit.With(exit.Mount, mountd.HandOver(&c.Config, user, daemonArgs(c, options), parent))
	}
	leave, err := c.leave()
	if err != nil {
		return err
	}
	defer leave()
	err = runDaemon(ctx, c, out, parent)
	if err != nil && c.Kernel.Premount != nil {
		err = errors.Join(err, mounts.Unmount(c.Dir, true))
	}
	return err
}

// runDaemon mounts, and returns when the mount is gone.
func runDaemon(ctx context.Context, c *mountConfig, out io.Writer, parent *daemon.Parent) error {
	// Two may be asked for at once: the second one means "at once".
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if parent == nil {
		signal.Notify(signals, syscall.SIGHUP) // the terminal is closed
	} else {
		signal.Ignore(syscall.SIGHUP)
	}
	log := newLogger(out, c.logFormat, c.logLevel)
	slog.SetDefault(log)
	c.Log, c.Status = log, parent.Status
	c.Note = func(text string) {
		log.Warn(text)
		parent.Note(text)
	}
	if c.Kernel.Premount != nil && c.setuid != "" && !c.Kernel.Journal.Resumes() {
		c.notePlaces(func(format string, args ...any) { c.Note(fmt.Sprintf(format, args...)) })
	}
	c.Remote = withCopies(c.Remote)
	m, err := mountd.Start(ctx, c.Config, c.patience)
	if err == nil {
		if err = parent.Ready(); err != nil {
			err = fmt.Errorf("whoever started this daemon is gone: %w", err)
			if c.Kernel.Leash == nil {
				err = errors.Join(err, m.Stop())
			}
			err = exit.With(exit.Interrupted, err)
		}
	}
	if err != nil {
		log.Error("not mounted", "mount", c.Dir, "source", c.Source, "cause", err)
		return mountError(err)
	}
	if parent == nil {
		if _, err := systemd.SdNotify(false, systemd.SdNotifyReady); err != nil {
			log.Warn("systemd", "cause", err)
		}
	}
	log.Info("mounted", "mount", c.Dir, "source", c.Source, "cache", c.Cache.Mode, "pid", os.Getpid(), "version", mountd.Version())
	if err := m.Supervise(signals, parent != nil); err != nil {
		log.Error("closing", "cause", err)
		return exit.With(exit.System, err)
	}
	return nil
}

// mountError gives the errors of a mount their codes.
func mountError(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return exit.With(exit.Interrupted, err)
	case errors.As(err, new(*transcode.SpecError)), errors.Is(err, transcode.ErrInternal):
		return err // classify knows them
	}
	return exit.With(exit.Mount, err)
}
