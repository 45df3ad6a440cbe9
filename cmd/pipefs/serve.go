package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/daemon"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mounts"
)

// mounted is a file system that is mounted, with all that stands behind it.
type mounted interface {
	// Unmount fails with an error that busy recognizes while files are open.
	Unmount() error
	// UnmountLazily takes the name away at once.
	UnmountLazily() error
	// Done is closed when the last request is answered and the mount is gone.
	Done() <-chan struct{}
	// Close releases what stands behind the mount. It comes after Done.
	Close() error
	// Abandon does as much of that as is safe before Done.
	Abandon()
}

// A daemon that shall end waits so long for a mount that is busy, and serves open
// files so long after a lazy unmount: together less than what Docker, Kubernetes and
// Slurm give a process before they kill it, which would leave a dead mount behind.
const (
	untilLazy = 2 * time.Second
	lingering = time.Second
	// untilDone is how long a mount that nobody uses may take to end.
	untilDone = 5 * time.Second
)

// runDaemon is the daemon: it mounts, and returns when the mount is gone.
func runDaemon(ctx context.Context, env *environ, c *mountConfig, parent *daemon.Parent) error {
	// Two may be asked for at once: the second one means "at once".
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if parent == nil {
		signal.Notify(signals, syscall.SIGHUP) // the terminal is closed
	} else {
		signal.Ignore(syscall.SIGHUP)
	}
	out := env.stderr
	if c.logFile != "" && c.premount == nil {
		file, err := openLog(c.logFile)
		if err != nil {
			return exit.With(exit.System, err)
		}
		defer file.Close()
		out = file
	}
	log := newLogger(out, c.logFormat, c.logLevel)
	slog.SetDefault(log)

	m, err := start(ctx, c, log, parent)
	if err != nil {
		log.Error("not mounted", "mount", c.dir, "source", c.source, "cause", err)
		return err
	}
	if parent == nil {
		if err := daemon.Notify(daemon.Ready); err != nil {
			log.Warn("systemd", "cause", err)
		}
	}
	log.Info("mounted", "mount", c.dir, "source", c.source, "cache", c.cache, "pid", os.Getpid(), "version", versionString())
	select {
	case <-m.Done():
		log.Info("unmounted", "mount", c.dir)
	case <-unseen(m, c.dir, parent):
		log.Info("stopping: this mount namespace has no other process, so nobody can see the mount", "mount", c.dir)
		if !stop(m, c.dir, signals, log) {
			m.Abandon()
			return nil
		}
	case s := <-signals:
		log.Info("stopping", "signal", s.String())
		if parent == nil {
			if err := daemon.Notify(daemon.Stopping); err != nil {
				log.Warn("systemd", "cause", err)
			}
		}
		if !stop(m, c.dir, signals, log) {
			// Requests may be under way: what stands behind them must not be closed
			// under their feet, and is made to survive this.
			m.Abandon()
			return nil
		}
	}
	if err := m.Close(); err != nil {
		log.Error("closing", "cause", err)
		return exit.With(exit.System, err)
	}
	return nil
}

// unseen is closed when nobody is left who could see the mount of a daemon in the
// background: a namespace whose last process ends would otherwise live on with the
// daemon, and the daemon with it. nil is never closed.
func unseen(m mounted, dir string, parent *daemon.Parent) <-chan struct{} {
	if parent == nil {
		return nil
	}
	place, err := mounts.PlaceOf(dir)
	if err != nil {
		return nil
	}
	alone := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		// Twice: the first process may be about to be replaced by the next.
		for times := 0; times < 2; {
			select {
			case <-m.Done():
				return
			case <-tick.C:
			}
			if times++; place.Seen() {
				times = 0
			}
		}
		close(alone)
	}()
	return alone
}

// start mounts and makes sure that the mount answers.
func start(ctx context.Context, c *mountConfig, log *slog.Logger, parent *daemon.Parent) (mounted, error) {
	parent.Status(fmt.Sprintf("%s to be opened", c.source))
	note := func(text string) {
		log.Warn(text)
		parent.Note(text)
	}
	m, err := openMount(ctx, c, log, note)
	if err != nil {
		return nil, err
	}
	parent.Status(fmt.Sprintf("the mount %s to answer", c.dir))
	link := filepath.Join(c.dir, control.Link)
	_, err = mounts.Answer(link, c.patience, func() (string, error) { return os.Readlink(link) })
	switch {
	case err != nil:
		err = exit.Errorf(exit.Mount, "the mount does not answer: %w", err)
	case ctx.Err() != nil:
		err = exit.Errorf(exit.Interrupted, "interrupted before the mount was ready")
	default:
		if gone := parent.Ready(); gone != nil {
			err = exit.Errorf(exit.Interrupted, "whoever started this daemon is gone: %w", gone)
		}
	}
	if err != nil {
		_ = m.UnmountLazily()
		select {
		case <-m.Done():
			_ = m.Close()
		case <-time.After(untilDone):
			m.Abandon()
		}
		return nil, err
	}
	return m, nil
}

// stop unmounts: patiently, then lazily, and at once when asked a second time. It
// reports whether the mount is gone altogether.
func stop(m mounted, dir string, signals <-chan os.Signal, log *slog.Logger) bool {
	patience := time.NewTimer(untilLazy)
	defer patience.Stop()
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	left := untilDone
	for told := false; ; {
		err := m.Unmount()
		if err == nil {
			break
		}
		if !told && !errors.Is(err, mounts.ErrBusy) {
			told = true
			log.Warn("unmounting", "cause", err)
		}
		because := "it stayed busy"
		select {
		case <-m.Done():
			return true
		case <-retry.C:
			continue
		case <-patience.C:
		case <-signals:
			because = "a second signal"
		}
		for _, p := range mounts.Users(dir, 5) {
			log.Warn("the mount is busy", "pid", p.PID, "program", p.Name, "uses", p.Uses)
		}
		if err := m.UnmountLazily(); err != nil {
			log.Error("unmounting lazily", "cause", err)
			return false
		}
		left = lingering
		log.Warn("unmounted lazily: files that are open can be read a little longer", "because", because, "seconds", lingering.Seconds())
		break
	}
	patience.Reset(left)
	select {
	case <-m.Done():
		log.Info("unmounted", "mount", dir)
		return true
	case <-patience.C:
	case <-signals:
	}
	log.Warn("ending while files are open: their readers get an error", "mount", dir)
	return false
}
