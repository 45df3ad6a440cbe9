package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
)

type profileConfig struct {
	pid            int
	view           string
	during         time.Duration
	record, replay string
	asJSON         bool

	events []account.Event // the last ones
	lost   int64
	gone   int64 // did not fit in events
	names  map[uint32]process
}

// recorded is a line of a recording: a request, or the last one, which says how many were lost.
type recorded struct {
	account.Event
	Lost *int64 `json:"lost"`
}

// process is that of a thread.
type process struct {
	pid     int
	command string
}

const (
	// profileEvery is how often the daemon is asked.
	profileEvery = 200 * time.Millisecond
	// mostEvents is how many requests a summary is made of.
	mostEvents = 2_000_000
)

func profileCommand(env *environ) *cli.Command {
	c := &profileConfig{names: map[uint32]process{}}
	return &cli.Command{
		Name: "profile", ArgsUsage: "MNT", Category: measuring, Usage: "show each request to a mount, and the slowest files",
		Description: "Prints each request as it is answered: time, process, operation, file, bytes, how long it took, and what it waited for. At the end (Ctrl-C, or after --for) it names the slowest files and those that were read again, and says in which order each process read. What the kernel has in its page cache it does not ask for.\n" +
			"Requests are recorded only while this command runs. If they come faster than it can take them, it says how many were lost.",
		UsageText: `pipefs profile ~/m
pipefs profile --for 30s --record run.jsonl ~/m
pipefs profile --replay run.jsonl --view resize256-bmp`,
		Flags: []cli.Flag{
			opt("pid", "N", "all", intoInt(&c.pid, 1, 1<<31), "show one process"),
			opt("view", "VIEW", "all", intoString(&c.view), "show one view"),
			opt("for", "DURATION", "until Ctrl-C", intoDuration(&c.during), "stop after this time"),
			opt("record", "FILE", "", intoString(&c.record), "write all requests to a file, as lines of JSON, and print only the summary"),
			opt("replay", "FILE", "", intoString(&c.replay), "read requests from such a file instead of a mount"),
			&cli.BoolFlag{Name: "json", Destination: &c.asJSON, Usage: "print the summary only, as JSON"},
		},
		Action: takes(0, 1, func(ctx context.Context, args []string) error {
			switch {
			case c.replay != "" && (len(args) > 0 || c.record != "" || c.during > 0):
				return exit.Errorf(exit.Usage, "--replay reads a file: MNT, --record and --for do not go with it")
			case c.replay != "":
				return c.again(env)
			case len(args) == 0:
				return exit.Errorf(exit.Usage, "profile takes a mount: pipefs profile MNT")
			}
			return c.watch(ctx, env, args[0])
		}),
	}
}

// watch shows what a mount is asked.
func (c *profileConfig) watch(ctx context.Context, env *environ, mnt string) (err error) {
	var record *json.Encoder
	if c.record != "" {
		f, err := os.OpenFile(c.record, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return exit.With(exit.System, err)
		}
		out := bufio.NewWriter(f)
		defer func() { err = errors.Join(err, out.Flush(), f.Close()) }()
		record = json.NewEncoder(out)
	}
	if c.during > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.during)
		defer cancel()
	}
	tick := time.NewTicker(profileEvery)
	defer tick.Stop()
	for since := int64(-1); ; {
		// Once more after the end, for what came meanwhile.
		reply, err := ask(context.WithoutCancel(ctx), mnt, control.Request{Op: control.OpTrace, Since: since})
		switch {
		case err != nil:
			return err
		case reply.Trace == nil:
			return exit.Errorf(exit.Internal, "the daemon of %s told no requests", mnt)
		}
		t := reply.Trace
		if since < 0 {
			fmt.Fprintf(env.stderr, "pipefs: recording the requests to %s; Ctrl-C ends it\n", mnt)
		}
		since, c.lost = t.Next, c.lost+t.Lost
		for i := range t.Events {
			e := &t.Events[i]
			p := c.processOf(e.Thread)
			e.PID, e.Command = p.pid, p.command
			if record != nil {
				if err := record.Encode(e); err != nil {
					return exit.With(exit.System, err)
				}
			}
			c.show(env, e, record == nil)
		}
		switch {
		case len(t.Events) == account.MaxTaken:
			continue
		case ctx.Err() != nil:
			if record != nil {
				if err := record.Encode(map[string]int64{"lost": c.lost}); err != nil {
					return exit.With(exit.System, err)
				}
			}
			return c.summary(env)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// again shows what was recorded.
func (c *profileConfig) again(env *environ) error {
	f, err := os.Open(c.replay)
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReader(f))
	for n, ended := 1, false; ; n++ {
		var r recorded
		switch err := d.Decode(&r); {
		case errors.Is(err, io.EOF):
			if !ended {
				fmt.Fprintf(env.stderr, "pipefs: %s has no end: the recording was interrupted, and how many requests it lost is not known\n", c.replay)
			}
			return c.summary(env)
		case err != nil:
			return exit.Errorf(exit.System, "%s: request %d cannot be read; it was not written by pipefs profile --record, or not completely: %w", c.replay, n, err)
		case r.Lost != nil:
			c.lost, ended = c.lost+*r.Lost, true
		default:
			c.show(env, &r.Event, true)
		}
	}
}

// show prints a request if it is wanted, and keeps it for the summary.
func (c *profileConfig) show(env *environ, e *account.Event, line bool) {
	if c.pid != 0 && e.PID != c.pid || c.view != "" && e.View != c.view {
		return
	}
	if len(c.events) < mostEvents {
		c.events = append(c.events, *e)
	} else {
		c.gone++
	}
	if !line || c.asJSON {
		return
	}
	what := fmt.Sprintf("%s %-15.15s %7d %-6s %s", e.At.Format("15:04:05.000"), human.Line(e.Command), e.PID, e.Op, human.Line(e.View+"/"+e.Path))
	if e.Op == "read" {
		what += fmt.Sprintf(" %s at %d", human.Size(int64(e.Bytes)), e.Offset)
	}
	what += " " + ms(e.Took)
	var parts []string
	for _, p := range []struct {
		name string
		ns   int64
	}{{"source", e.Source}, {"worker", e.Worker}, {"compute", e.Compute}, {"memory", e.Memory}} {
		if p.ns > 0 {
			parts = append(parts, p.name+" "+ms(p.ns))
		}
	}
	if parts != nil {
		what += " (" + strings.Join(parts, ", ") + ")"
	}
	if e.Errno != 0 {
		what += ": " + syscall.Errno(e.Errno).Error()
	}
	fmt.Fprintln(env.stdout, what)
}

func ms(ns int64) string { return fmt.Sprintf("%.3f ms", float64(ns)/1e6) }

// summary tells what the requests have in common.
func (c *profileConfig) summary(env *environ) error {
	s := account.Summarize(c.events, c.lost)
	if c.asJSON {
		return human.PrintJSON(env.stdout, s)
	}
	w := env.stdout
	fmt.Fprintf(w, "\n%s, %s read, %s of requests", human.Plural(s.Requests, "request", "requests"), human.Size(s.Bytes), ms(s.Took))
	if s.Errors > 0 {
		fmt.Fprintf(w, ", %s", human.Plural(s.Errors, "error", "errors"))
	}
	fmt.Fprintln(w)
	if s.Lost > 0 {
		fmt.Fprintf(w, "%s lost: they came faster than they were taken\n", human.Plural(s.Lost, "request was", "requests were"))
	}
	if c.gone > 0 {
		fmt.Fprintf(w, "the last %s are not in the summary\n", human.Plural(c.gone, "request", "requests"))
	}
	files := func(title string, files []account.TracedFile) {
		if len(files) == 0 {
			return
		}
		fmt.Fprintln(w, "\n"+title)
		t := human.Table(w, "file", "time", "begun", "read")
		for _, f := range files {
			t.AppendRow(table.Row{human.Line(f.Path), ms(f.Took), f.Begun, human.Size(f.Bytes)})
		}
		human.Right(t, 2, 3, 4)
		t.Render()
	}
	files("Slowest files:", s.Slowest)
	files(fmt.Sprintf("Read again (%s):", human.Plural(s.Again, "time", "times")), s.Repeated)
	if len(s.Order) > 0 {
		fmt.Fprintln(w, "\nOrder of reading:")
		t := human.Table(w, "process", "view", "files", "order")
		for _, o := range s.Order {
			if o.Stride != 0 {
				o.Order += fmt.Sprintf(", every %d", o.Stride)
			}
			t.AppendRow(table.Row{o.PID, o.View, o.Files, o.Order})
		}
		human.Right(t, 1, 3)
		t.Render()
	}
	return nil
}

// processOf finds the process of a thread.
func (c *profileConfig) processOf(thread uint32) process {
	if p, ok := c.names[thread]; ok {
		return p
	}
	p := process{pid: int(thread), command: "?"}
	if pid := account.ProcessOf(thread); pid != 0 {
		p = process{pid, account.Command(pid)}
	}
	c.names[thread] = p
	return p
}
