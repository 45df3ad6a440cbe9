// Command pipefs mounts an image dataset as a directory of views.
//
// Each command stands in a file of its own, or in several that begin with its name. A flag is
// defined once, and from that come its line in the help and its twin in -o for fstab. What a
// mount is made of is in internal/mountd.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/transcode"
)

// environ is what a command has to talk through.
type environ struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

func main() { os.Exit(run()) }

// run is main without os.Exit, so that the test scripts can be the program.
func run() int {
	// The first Ctrl-C ends a command in good order, the second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	env := &environ{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	return int(exit.Of(execute(ctx, env, os.Args)))
}

// execute runs one command line and reports its error to the user.
func execute(ctx context.Context, env *environ, args []string) error {
	err := classify(dispatch(ctx, env, args))
	if err != nil {
		fmt.Fprintf(env.stderr, "pipefs: %s\n", human.Lines(err.Error()))
		var spec *transcode.SpecError
		if errors.As(err, &spec) {
			fmt.Fprintln(env.stderr, human.Indent(spec.Pointer(), "    "))
		}
	}
	return err
}

// classify gives the errors of the packages below, which know no exit codes, theirs.
func classify(err error) error {
	var spec *transcode.SpecError
	var mount *mountd.MountError
	switch {
	case errors.As(err, &spec):
		return exit.With(exit.Usage, err)
	case errors.As(err, &mount):
		return exit.With(exit.Mount, err)
	case errors.Is(err, transcode.ErrInternal):
		return exit.With(exit.Internal, err)
	}
	return err
}

// commandsOf lists all commands, as the help does.
func commandsOf(env *environ) []*cli.Command {
	return []*cli.Command{
		mountCommand(env), umountCommand(env), packCommand(env), planCommand(env), commitCommand(env), compactCommand(env), gcCommand(env), checkCommand(env), materializeCommand(env), infoCommand(env), viewsCommand(env),
		tuneCommand(env), benchCommand(env), statsCommand(env), topCommand(env), profileCommand(env), liveCommand(env), explainCommand(env), mountsCommand(env), doctorCommand(env), debugCommand(env), cacheCommand(env), warmupCommand(env), fidelityCommand(env), listCommand(env), refreshCommand(env), convertCommand(env), exportCommand(env), versionCommand(env),
		completionCommand(env), manCommand(env),
	}
}

func noter(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, "pipefs: note: "+format+"\n", args...) }
}

// tell prints notes.
func tell(env *environ, notes []string) {
	for _, note := range notes {
		noter(env.stderr)("%s", note)
	}
}

// quiet logs for commands that people watch: only what they should know.
func quiet(env *environ) *slog.Logger { return human.Logger(env.stderr, "text", "warn") }

func versionCommand(env *environ) *cli.Command {
	return &cli.Command{
		Name: "version", ArgsUsage: "", Category: administration, Usage: "print the version and what was found on this machine",
		UsageText: "pipefs version    # for a bug report",
		Action: takes(0, 0, func(context.Context, []string) error {
			for _, line := range versions() {
				fmt.Fprintf(env.stdout, "%-14s%s\n", line[0], line[1])
			}
			return nil
		}),
	}
}

// versions lists name and version of all that matters.
func versions() [][2]string {
	gofuse := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/hanwen/go-fuse/v2" {
				gofuse = dep.Version
			}
		}
	}
	device := "ready"
	if err := mounts.CheckFUSE(""); err != nil {
		device = err.Error()
	}
	return [][2]string{
		{"pipefs", mountd.Version()},
		{"go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		{"go-fuse", gofuse},
		{"fuse", device},
		{"kernel", kernelFUSE()},
	}
}

// kernelFUSE is the kernel's release, on which depends what FUSE can do.
func kernelFUSE() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return "Linux " + unix.ByteSliceToString(name.Release[:])
}
