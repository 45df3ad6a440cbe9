package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/supervise"
)

// takeOver has this program serve a mount that another one serves.
func takeOver(ctx context.Context, env *environ, mnt string) error {
	stats, err := statsOf(ctx, mnt)
	if err != nil {
		return err
	}
	s := stats.Supervised
	if s == nil {
		return exit.Errorf(exit.Usage, "%s is not supervised, and its program cannot be replaced while it is mounted: unmount it, and mount it with --supervise", stats.Mount)
	}
	if s.Journal != pfs.JournalVersion || len(s.Config) == 0 {
		return exit.Errorf(exit.Usage, "version %s of pipefs cannot take %s over from version %s: what the two remember of a mount differs; the mount goes on as it was. Unmount it, and mount again",
			mountd.Version(), stats.Mount, stats.Version)
	}
	// This program has to understand what the other one was told.
	if _, err := configOf(s.Config); err != nil {
		return exit.With(exit.Usage, fmt.Errorf("version %s of pipefs cannot take %s over, which goes on as it was: %w", mountd.Version(), stats.Mount, err))
	}
	program, err := os.Executable()
	if err != nil {
		return exit.With(exit.System, err)
	}
	reply, err := ask(ctx, mnt, control.Request{Op: control.OpTakeover, Program: program})
	if err != nil {
		return exit.With(exit.Mount, err)
	}
	now, err := statsOf(ctx, mnt)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.stderr, "pipefs: %s is served by %s, version %s, process %d; before by version %s, process %d. Readers waited for %v\n",
		stats.Mount, program, now.Version, now.PID, stats.Version, stats.PID, time.Duration(reply.Paused*float64(time.Second)).Round(time.Millisecond))
	return nil
}

// superviseMount is the parent of a daemon: it mounts, and returns when the mount is gone. It
// keeps what takes root; the daemon runs as the user of --setuid.
func (c *mountConfig) superviseMount(ctx context.Context, parent *supervise.Parent) error {
	user, err := c.user()
	if err != nil {
		return err
	}
	out := os.Stderr
	if c.LogFile != "" {
		if out, err = supervise.OpenLog(c.LogFile); err != nil {
			return exit.With(exit.System, err)
		}
		defer out.Close()
	}
	leave, err := c.leave()
	if err != nil {
		return err
	}
	defer leave()
	// Little memory is all that this process has to do with.
	debug.SetGCPercent(20)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if parent == nil {
		signal.Notify(signals, syscall.SIGHUP)
	} else {
		signal.Ignore(syscall.SIGHUP)
	}
	log := human.Logger(out, c.LogFormat, c.LogLevel)
	slog.SetDefault(log)
	handed, err := json.Marshal(c) // with the seed, so that every daemon of the mount draws the same
	if err != nil {
		return err
	}
	config := supervise.Config{
		Dir: c.Dir, User: user, Patience: c.Patience, Key: c.Shared, Signals: signals,
		Arguments: daemonArgs(c), Settings: handed, LogFile: out, Log: log,
		Say: parent.Status, Note: parent.Note,
	}
	if parent == nil {
		config.Stopping = func() { tellSystemd(log, systemd.SdNotifyStopping) }
	}
	if c.Supervise {
		config.Restart, config.Deaths, config.Hung = true, c.Deaths, c.Hung
		config.JournalVersion, config.Resends = pfs.JournalVersion, pfs.Resends()
		if config.Handed.Journal, err = pfs.NewJournal(); err != nil {
			return exit.With(exit.System, err)
		}
	}
	if config.Handed.Connection, config.Handed.ReadAhead, err = mountd.Attach(&c.Config, user, log); err != nil {
		return exit.With(exit.Mount, err)
	}
	s, err := supervise.Start(ctx, config)
	if err == nil {
		if err = parent.Ready(); err != nil {
			signals <- unix.SIGTERM // and this ends the mount
			return exit.With(exit.Interrupted, errors.Join(fmt.Errorf("whoever started this mount is gone: %w", err), s.Run(ctx, true)))
		}
	}
	if err != nil {
		log.Error("not mounted", "mount", c.Dir, "source", c.Source, "cause", err)
		return startError(err)
	}
	if parent == nil {
		tellSystemd(log, systemd.SdNotifyReady)
	}
	log.Info("supervising", "mount", c.Dir, "pid", os.Getpid(), "version", mountd.Version())
	debug.FreeOSMemory()
	return exit.With(exit.System, s.Run(ctx, parent != nil))
}

func tellSystemd(log *slog.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("systemd", "cause", err)
	}
}

// leave is what the last process of a shared mount does last.
func (c *mountConfig) leave() (func(), error) {
	if c.Shared == "" {
		return func() {}, nil
	}
	place, err := control.PlaceAt(c.Shared, c.Dir)
	if err != nil {
		return nil, exit.With(exit.System, err)
	}
	return place.Leave, nil
}
