package main

import (
	"context"
	"fmt"

	"github.com/pipefs/pipefs/internal/daemon"
	"github.com/pipefs/pipefs/internal/exit"
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
	// Everything was resolved: the daemon works in /.
	args := append([]string{"pipefs", "mount"}, again(daemonOptions(options))...)
	err = daemon.Start(ctx, daemon.Child{
		Args: append(args, "--", c.source, c.dir),
		Log:  file, Patience: c.patience, Notice: notice,
		Say:  func(status string) { fmt.Fprintf(env.stderr, "pipefs: waiting for %s\n", status) },
		Tell: func(text string) { fmt.Fprintf(env.stderr, "pipefs: note: %s\n", text) },
	})
	if err != nil {
		return exit.With(exit.Of(err), fmt.Errorf("%w\n(log: %s)", err, path))
	}
	fmt.Fprintf(env.stderr, "pipefs: mounted %s on %s (log: %s)\n", c.source, c.dir, path)
	return nil
}

// daemonOptions leaves out -o, whose options were set one by one.
func daemonOptions(options []*option) []*option {
	var kept []*option
	for _, o := range options {
		if o.name != "o" && o.name != "foreground" {
			kept = append(kept, o)
		}
	}
	return kept
}
