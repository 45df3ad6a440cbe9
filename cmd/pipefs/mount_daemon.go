package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/supervise"
	"github.com/pipefs/pipefs/transcode"
)

// ownerUser is the value of --setuid that stands for the owner of what is mounted.
const ownerUser = "owner"

// untilEnded is how long a supervisor may take to end a daemon that did not come up.
const untilEnded = 15 * time.Second

// notice is how often the daemon is asked what takes so long.
const notice = time.Second

// runMount checks what is asked for, and mounts. A mount has two processes: a small one that
// mounts and supervises, and its child, the daemon that serves.
func runMount(ctx context.Context, env *environ, c *mountConfig) (err error) {
	handed, err := supervise.Take()
	if err != nil {
		return err
	}
	// The process that waits for this one has checked everything.
	if parent := supervise.Waiting(); parent != nil {
		c, err := configOf(parent.Config)
		switch {
		case err != nil:
		case handed != nil:
			err = c.serve(ctx, handed, parent)
		default:
			err = c.superviseMount(ctx, parent)
		}
		if err != nil {
			parent.Fail(err, int(exit.Of(classify(err))))
		}
		return err
	}
	if c.shared {
		return c.share(ctx, env)
	}
	return c.start(ctx, env)
}

// start mounts: in the background, as a child process that runs the same command again.
func (c *mountConfig) start(ctx context.Context, env *environ) error {
	if os.Geteuid() == 0 && c.Kernel.AllowOther && !c.followGiven {
		c.Read.NoFollow = true
	}
	if err := c.Resolve(ctx); err != nil {
		return err
	}
	if !c.nonempty {
		if err := askSwapped(ctx, "mount", c.Source, c.Dir); err != nil {
			return err
		}
	}
	checks := mountd.CheckOptions{CreateStore: c.createStore, NonEmpty: c.nonempty, Log: quiet(env)}
	dead, err := c.Check(ctx, checks)
	if err != nil {
		return err
	}
	user, err := c.user()
	if err != nil {
		return err
	}
	c.notes(ctx, env.stderr, user)
	if user != nil {
		c.tellUser(env.stderr, user)
	}
	if c.dryRun {
		return nil
	}
	if dead {
		err := c.ClearDead(checks, func() {
			fmt.Fprintf(env.stderr, "pipefs: %s held a dead mount, whose daemon was gone; unmounted it\n", c.Dir)
		})
		if err != nil {
			return err
		}
	}
	if c.foreground {
		return c.superviseMount(ctx, nil)
	}
	return background(ctx, env, c)
}

// user is whom the daemon becomes before it opens anything; nil where it stays who it
// is.
func (c *mountConfig) user() (*supervise.User, error) {
	if c.SetUID == "" || c.SetUID == ownerUser && os.Geteuid() != 0 {
		return nil, nil
	}
	if c.SetUID != ownerUser {
		u, err := supervise.LookupUser(c.SetUID)
		switch {
		case err != nil:
			return nil, exit.Errorf(exit.Usage, "--setuid %s: %w", c.SetUID, err)
		case u.UID == os.Geteuid():
			return nil, nil
		case os.Geteuid() != 0:
			return nil, exit.Errorf(exit.Usage, "--setuid %s: only root can become another user", c.SetUID)
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
	u, err := supervise.LookupUser(strconv.Itoa(int(st.Uid)))
	if err != nil { // files may belong to a user whom this machine does not know
		u = &supervise.User{Name: strconv.Itoa(int(st.Uid)), UID: int(st.Uid), GID: int(st.Gid)}
	}
	return u, nil
}

// tellUser says what a daemon cannot do that gives up root.
func (c *mountConfig) tellUser(w io.Writer, u *supervise.User) {
	without := ""
	if c.Cache.Mode == pfs.DaemonCache {
		without = "; kept files are read through the daemon, since passthrough takes root"
	}
	fmt.Fprintf(w, "pipefs: the daemon runs as user %s, and serves what that user may read%s (--setuid root keeps root)\n", u.Name, without)
}

// background starts the daemon and waits until its mount answers.
func background(ctx context.Context, env *environ, c *mountConfig) error {
	path := c.LogFile
	if path == "" {
		var err error
		if path, err = mountd.LogPath(c.Dir); err != nil {
			return exit.With(exit.System, err)
		}
	}
	file, err := supervise.OpenLog(path)
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer file.Close()
	c.LogFile = path // so that the daemon can tell, in its statistics, where it logs to
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	shown := human.NewPhases(env.stderr)
	err = supervise.StartDaemon(ctx, supervise.Child{
		Args: daemonArgs(c), Config: config,
		// The supervisor gives the daemon so long, and then has to end it.
		Log: file, Patience: c.Patience + untilEnded, Notice: notice,
		Say:  func(status string) { shown.Show("pipefs: waiting for " + status) },
		Tell: func(text string) { fmt.Fprintf(env.stderr, "pipefs: note: %s\n", text) },
	})
	shown.Done()
	if err != nil {
		return fmt.Errorf("%w\n(log: %s)", startError(err), path)
	}
	fmt.Fprintf(env.stderr, "pipefs: mounted %s on %s (log: %s)\n", c.Source, c.Dir, path)
	if !c.shared { // whoever holds it knows
		c.tellNext(ctx, env)
	}
	return nil
}

// startError gives the errors of a daemon in the background their codes.
func startError(err error) error {
	var failure *supervise.Failure
	switch {
	case errors.As(err, &failure):
		return exit.With(exit.Code(failure.Code), err)
	case errors.As(err, new(*supervise.SilentError)):
		return exit.With(exit.Internal, err)
	case errors.Is(err, context.Canceled):
		return exit.With(exit.Interrupted, err)
	}
	return exit.With(exit.Mount, err)
}

// daemonArgs is the command line of the supervisor and of the daemon, which tells people what is
// mounted where. What they do is in their configuration.
func daemonArgs(c *mountConfig) []string { return []string{"pipefs", "mount", "--", c.Source, c.Dir} }

// configOf is what another process has handed over. That process may be of another version.
func configOf(handed []byte) (*mountConfig, error) {
	c := &mountConfig{}
	d := json.NewDecoder(bytes.NewReader(handed))
	d.DisallowUnknownFields()
	err := d.Decode(c)
	if err == nil {
		return c, nil
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return nil, exit.Errorf(exit.Usage, "the mount has the setting %s, which version %s of pipefs does not know: it was mounted by a newer version", name, mountd.Version())
	}
	return nil, exit.Errorf(exit.Internal, "the configuration of the mount cannot be read: %w", err)
}

// serve is the daemon: it serves what its supervisor has mounted, and returns when the mount
// is gone, or another daemon goes on.
func (c *mountConfig) serve(ctx context.Context, h *supervise.Handed, parent *supervise.Parent) (err error) {
	// It was run by another name: see supervise.StartDaemon.
	_ = os.WriteFile("/proc/self/comm", []byte("pipefs"), 0)
	// Two may be asked for at once: the second one means "at once".
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGHUP)
	log := human.Logger(os.Stderr, c.LogFormat, c.LogLevel)
	slog.SetDefault(log)
	c.Log, c.Status = log, parent.Status
	c.Note = func(text string) {
		log.Warn(text)
		parent.Note(text)
	}
	c.Kernel.ControlPipe, c.Kernel.Expire, c.Kernel.Suspects = h.ControlPipe, h.NoAbort, h.Suspects
	if c.Kernel.Journal, err = pfs.OpenJournal(h.Journal); err != nil {
		return exit.With(exit.System, err)
	}
	if c.Kernel.Premount, err = pfs.PremountOf(h.Connection, h.ReadAhead); err != nil {
		return exit.With(exit.System, err)
	}
	if c.SetUID != "" && !c.Kernel.Journal.Resumes() {
		c.notePlaces(func(format string, args ...any) { c.Note(fmt.Sprintf(format, args...)) })
	}
	c.Remote = mountd.WithCacheDir(c.Remote)
	m, err := mountd.Start(ctx, c.Config, c.Patience)
	if err == nil {
		if err = parent.Ready(); err != nil {
			err = exit.With(exit.Interrupted, fmt.Errorf("the supervisor of this daemon is gone: %w", err))
		}
	}
	if err != nil {
		log.Error("not mounted", "mount", c.Dir, "source", c.Source, "cause", err)
		return mountError(err)
	}
	log.Info("mounted", "mount", c.Dir, "source", c.Source, "cache", c.Cache.Mode, "pid", os.Getpid(), "version", mountd.Version())
	if err := m.Supervise(signals); err != nil {
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
