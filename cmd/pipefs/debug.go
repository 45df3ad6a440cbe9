package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/doctor"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
)

func debugCommand(env *environ) *cli.Command {
	o := doctor.Archive{Version: mountd.Version(), Seconds: 10}
	return &cli.Command{
		Name: "debug", ArgsUsage: "MNT OUT.tar.gz", Category: administration, Usage: "write an archive for a bug report",
		Description: "Writes the version, the configuration of the mount, the checks of pipefs doctor, the counters, profiles of the daemon (goroutines, heap, processor), the end of its log, the mount table, and the limits of the machine. The archive has no pictures and no credentials, and names of files are hashed. Read it before you send it: it is text, except for the profiles.",
		UsageText: `pipefs debug ~/m report.tar.gz
tar xzf report.tar.gz && less pipefs-debug/*.txt`,
		Flags: []cli.Flag{
			opt("seconds", "N", "10", intoInt(&o.Seconds, 1, control.MaxProfile), "profile the processor for N seconds; run the training meanwhile"),
			&cli.BoolFlag{Name: "with-paths", Destination: &o.WithPaths, Usage: "keep the names of files and directories"},
		},
		Action: takes(2, 2, func(ctx context.Context, args []string) error {
			if !strings.HasSuffix(args[1], ".tar.gz") && !strings.HasSuffix(args[1], ".tgz") {
				return exit.Errorf(exit.Usage, "%s: the archive is a .tar.gz file; name it so", args[1])
			}
			return runDebug(ctx, env, o, args[0], args[1])
		}),
	}
}

func runDebug(ctx context.Context, env *environ, o doctor.Archive, mnt, out string) error {
	switch _, err := control.Find(mnt); {
	case errors.Is(err, fs.ErrPermission):
		return exit.With(exit.Usage, err)
	case err != nil:
		return exit.With(exit.Mount, err)
	}
	o.Ask = func(ctx context.Context, r control.Request) (control.Reply, error) { return ask(ctx, mnt, r) }
	o.Doctor = func(ctx context.Context) []doctor.Finding {
		program, err := os.Executable()
		if err != nil {
			return []doctor.Finding{{Mark: doctor.Note, Says: err.Error()}}
		}
		machine, err := doctor.Here(program, "")
		if err != nil {
			return []doctor.Finding{{Mark: doctor.Note, Says: err.Error()}}
		}
		return machine.Look(ctx)
	}
	f, err := renameio.NewPendingFile(out, renameio.WithStaticPermissions(0o600))
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer func() { _ = f.Cleanup() }()
	shown := human.NewPhases(env.stderr)
	shown.Show(fmt.Sprintf("profiling the daemon for %d s", o.Seconds))
	err = o.Write(ctx, f)
	shown.Done()
	if err != nil {
		return exit.With(exit.System, fmt.Errorf("writing %s: %w", out, err))
	}
	info, err := f.Stat()
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return exit.With(exit.System, err)
	}
	fmt.Fprintf(env.stdout, "wrote %s, %s\n", out, human.Size(info.Size()))
	return nil
}
