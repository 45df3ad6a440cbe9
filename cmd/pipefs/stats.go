package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mounts"
)

func statsCommand(env *environ) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name: "stats", ArgsUsage: "MNT", Category: everyday, Usage: "show the counters of a mount",
		Description: "Counts since the mount was made. With --cache page, the kernel answers most reads itself, and they are not counted. A file that several views share counts for one of them: bmp-own counts as bmp, and unchanged files count as original.",
		UsageText: `pipefs stats ~/m
pipefs stats --json ~/m | jq .pid`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON; times are in ns, sizes in bytes"},
		},
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			stats, err := statsOf(ctx, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return human.PrintJSON(env.stdout, stats)
			}
			printStats(env.stdout, stats, time.Now())
			return nil
		}),
	}
}

// statsOf asks the daemon of a mount.
func statsOf(ctx context.Context, path string) (*control.Stats, error) {
	return historyOf(ctx, path, false)
}

// historyOf asks it for the last minutes, too.
func historyOf(ctx context.Context, path string, history bool) (*control.Stats, error) {
	reply, err := ask(ctx, path, control.Request{Op: control.OpStats, History: history})
	if err == nil && reply.Stats == nil {
		err = exit.Errorf(exit.Internal, "the daemon of %s answered without numbers", path)
	}
	return reply.Stats, err
}

// ask sends a request to the daemon of the mount that path is, or lies in.
func ask(ctx context.Context, path string, r control.Request) (reply control.Reply, err error) {
	client, err := control.Find(path)
	if err == nil {
		reply, err = client.Do(ctx, r)
	}
	switch {
	case reply.Denied, reply.Refused, errors.Is(err, fs.ErrPermission):
		return reply, exit.With(exit.Usage, err)
	case client == nil, errors.Is(err, control.ErrGone):
		return reply, exit.With(exit.Mount, err)
	}
	return reply, err
}

// valueWidth bounds the column of values, some of which are sentences.
const valueWidth = 40

func printStats(w io.Writer, s *control.Stats, now time.Time) {
	fmt.Fprintf(w, "mount    %s\nsource   %s\ncurrent  %s\ndaemon   process %d, version %s, up %s\n",
		s.Mount, s.Source, s.Current, s.PID, s.Version, now.Sub(s.Started).Round(time.Second))
	if s.Log != "" {
		fmt.Fprintf(w, "log      %s\n", s.Log)
	}
	if s.Cache != "" {
		fmt.Fprintf(w, "cache    %s\n", s.Cache)
	}
	if s.Holders != nil {
		fmt.Fprintf(w, "held by  %s\n", human.Plural(*s.Holders, "connection", "connections"))
	}
	if s.Supervised != nil {
		fmt.Fprintf(w, "kept up  by process %d; %s\n", s.Supervised.PID, restarts(s.Supervised))
	}
	if s.Lost != "" {
		fmt.Fprintf(w, "lost     %s\n", s.Lost)
	}
	if s.Changes != "" {
		fmt.Fprintf(w, "changes  %s\n", s.Changes)
	}
	printVerdict(w, s.Verdict)
	fmt.Fprintln(w)
	t := human.Table(w, "", "", "")
	group := ""
	for _, c := range s.Counters {
		shown := ""
		if c.Group != group {
			if group != "" {
				t.AppendSeparator()
			}
			group, shown = c.Group, c.Group
		}
		t.AppendRow(table.Row{shown, human.Line(control.RowName(c)), human.WrapAt(human.Line(formatCounter(c)), 0, valueWidth)})
	}
	human.Right(t, 3)
	t.ResetHeaders()
	t.Render()
}

// printVerdict says what holds readers back, and what to do.
func printVerdict(w io.Writer, v *account.Verdict) {
	if v == nil {
		return
	}
	fmt.Fprintf(w, "lately   %s\n", v.Text)
	for _, advice := range v.Advice {
		fmt.Fprintf(w, "         → %s\n", advice)
	}
}

func formatCounter(c control.Counter) string {
	switch c.Unit {
	case control.Text:
		return c.Text
	case control.Bytes:
		return human.Size(c.Value)
	case control.Nanosec:
		return time.Duration(c.Value).Round(time.Millisecond).String()
	case control.Percent:
		return fmt.Sprintf("%d %%", c.Value)
	case control.YesNo:
		if c.Value == 0 {
			return "no"
		}
		return "yes"
	}
	return human.Count(c.Value)
}

// restarts says how often the daemon of a supervised mount was started again.
func restarts(s *control.Supervised) string {
	text := fmt.Sprintf("daemon started again %s", human.Plural(s.Restarts, "time", "times"))
	if s.Takeovers > 0 {
		text += fmt.Sprintf(", taken over %s", human.Plural(s.Takeovers, "time", "times"))
	}
	if s.Longest > 0 {
		text += fmt.Sprintf("; nothing was served for %.3g s at most", s.Longest)
	}
	return text
}

func explainCommand(env *environ) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name: "explain", ArgsUsage: "MNT/VIEW/FILE", Category: everyday, Usage: "show how one file of a mount is made",
		Description: "Shows the sample behind the file, the steps that apply, the steps that are left out and why, where the bytes come from, and what a random view drew. Nothing is computed for the answer.",
		UsageText: `pipefs explain ~/m/resize256-bmp/train/cat/1.bmp
pipefs explain ~/m/.draw/7/0/rrc224-hflip-npy/train/cat/1.npy     # which box was cropped`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"},
		},
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			mnt, path, err := belowMount(args[0])
			if err != nil {
				return err
			}
			reply, err := ask(ctx, mnt, control.Request{Op: control.OpExplain, Path: path})
			if err != nil {
				return err
			}
			if reply.Explained == nil {
				return fmt.Errorf("the daemon of %s explained nothing", mnt)
			}
			if asJSON {
				return human.PrintJSON(env.stdout, reply.Explained)
			}
			printExplanation(env.stdout, reply.Explained)
			return nil
		}),
	}
}

// belowMount finds the mount that a path lies in, and the rest of the path. The last name is not
// looked up: in a random view that would draw.
func belowMount(given string) (mnt, rest string, err error) {
	path, err := filepath.Abs(given)
	if err != nil {
		return "", "", err
	}
	rest = filepath.Base(path)
	dir, err := mounts.Resolve(filepath.Dir(path))
	for path = filepath.Dir(path); errors.Is(err, fs.ErrNotExist); dir, err = mounts.Resolve(path) {
		rest, path = filepath.Join(filepath.Base(path), rest), filepath.Dir(path)
	}
	if err != nil {
		return "", "", exit.With(exit.Mount, err)
	}
	at, err := mounts.Holding(dir)
	if err != nil {
		return "", "", err
	}
	if at == nil || !at.Ours() {
		return "", "", exit.Errorf(exit.Mount, "%s is not below a pipefs mount (pipefs mounts lists them); write MNT/VIEW/FILE", given)
	}
	below, err := filepath.Rel(at.Mountpoint, filepath.Join(dir, rest))
	return at.Mountpoint, below, err
}

func printExplanation(w io.Writer, e *control.Explanation) {
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-9s %s\n", name, text)
		}
	}
	row("view", e.View)
	row("sample", human.Line(e.Sample))
	row("header", e.Is)
	if e.Unchanged != "" {
		row("unchanged", e.Unchanged)
	}
	for _, s := range e.Steps {
		if s.LeftOut != "" {
			row("left out", s.Step+": "+s.LeftOut)
		} else {
			row("step", s.Step+": "+s.Makes)
		}
	}
	if d := e.Draw; d != nil {
		text := fmt.Sprintf("seed %d, epoch %d", d.Seed, d.Epoch)
		if d.Repeat > 0 {
			text += fmt.Sprintf(", repeat %d", d.Repeat)
		}
		row("draw", text)
	}
	if e.Computed > 0 {
		row("read from", fmt.Sprintf("%s; then %s computed", e.From, human.Plural(e.Computed, "step is", "steps are")))
	} else {
		row("read from", human.Line(e.From))
	}
	if e.Bytes != nil {
		row("size", human.Plural(int(*e.Bytes), "byte", "bytes"))
	}
	row("failed", human.Line(e.Failed))
	row("note", human.Lines(e.Note))
}
