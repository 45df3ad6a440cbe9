package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/internal/daemon"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mounts"
)

// background starts the daemon and waits until its mount answers.
func background(ctx context.Context, env *environ, c *mountConfig, options []*option) error {
	path := c.logFile
	if path == "" {
		var err error
		if path, err = logPath(c.dir); err != nil {
			return exit.With(exit.System, err)
		}
	}
	file, err := openLog(path)
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer file.Close()
	if c.logFile == "" {
		// so that the daemon can tell, in its statistics, where it logs to
		if err := lookup(options, "log-file").give(path); err != nil {
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
		if mounts.Dead(mounts.Probe(c.dir)) {
			// A daemon that became another user may not be able to unmount.
			err = errors.Join(err, mounts.Unmount(c.dir, true))
		}
		return exit.With(exit.Of(err), fmt.Errorf("%w\n(log: %s)", err, path))
	}
	fmt.Fprintf(env.stderr, "pipefs: mounted %s on %s (log: %s)\n", c.source, c.dir, path)
	return nil
}

// daemonArgs is the command line of the daemon, which works in /: everything in it was
// resolved, and the options of -o were set one by one.
func daemonArgs(c *mountConfig, options []*option) []string {
	var kept []*option
	for _, o := range options {
		if o.name != "o" && o.name != "foreground" {
			kept = append(kept, o)
		}
	}
	args := append([]string{"pipefs", "mount"}, again(kept)...)
	return append(args, "--", c.source, c.dir)
}
