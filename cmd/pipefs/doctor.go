package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/doctor"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
)

func doctorCommand(env *environ) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name: "doctor", ArgsUsage: "[DATASET]", Category: administration, Usage: "check this machine and suggest fixes",
		Description: "Checks the kernel, the permission to mount, the limits of this job, the directories that pipefs writes to, the image decoders, current mounts, and DATASET if it is named. At the end it mounts two small pictures, and removes them again. Run it where the training runs: as the same user, in the same container or job.\n" +
			"The exit code is 0 if pipefs can mount here, 1 if a permission is missing, and 2 otherwise.",
		UsageText: `pipefs doctor
pipefs doctor ~/imagenet      # also check this dataset and its file system
pipefs doctor --json | jq -r '.findings[] | select(.mark != "ok").says'`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"},
		},
		Action: takes(0, 1, func(ctx context.Context, args []string) error {
			dataset := ""
			if len(args) == 1 {
				var err error
				if dataset, err = filepath.Abs(args[0]); err != nil {
					return err
				}
			}
			found, err := lookHere(ctx, dataset)
			if err != nil {
				return err
			}
			if _, nothing := lookInto(ctx, dataset); nothing != "" {
				found = append(found, doctor.Finding{About: "dataset", Mark: doctor.Note, Says: nothing})
			}
			fatal := doctor.Fatal(found)
			if asJSON {
				err = human.PrintJSON(env.stdout, struct {
					Mounts   bool             `json:"can_mount"`
					Findings []doctor.Finding `json:"findings"`
				}{fatal == nil, found})
			} else {
				printFindings(env, found)
			}
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return exit.Errorf(exit.Interrupted, "interrupted")
			case fatal != nil:
				what := ""
				if dataset != "" {
					what = " that dataset"
				}
				return exit.Errorf(exit.Of(fatal), "pipefs cannot mount%s here; the problem above says why", what)
			}
			return nil
		}),
	}
}

// lookHere looks at this machine, and at a dataset if there is one.
func lookHere(ctx context.Context, dataset string) ([]doctor.Finding, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	machine, err := doctor.Here(program, dataset)
	if err != nil {
		return nil, err
	}
	return machine.Look(ctx), nil
}

func printFindings(env *environ, found []doctor.Finding) {
	const margin = 22
	for _, f := range found {
		fmt.Fprintf(env.stdout, "%-9s%-12s %s\n", f.Mark, f.About, human.Wrap(f.Says, margin))
		if f.Do != "" {
			fmt.Fprintf(env.stdout, "%s→ %s\n", strings.Repeat(" ", margin), human.Wrap(f.Do, margin+2))
		}
	}
}

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
		found, err := lookHere(ctx, "")
		if err != nil {
			found = []doctor.Finding{{Mark: doctor.Note, Says: err.Error()}}
		}
		return found
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
