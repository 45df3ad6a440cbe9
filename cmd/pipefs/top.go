package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/live"
	"github.com/pipefs/pipefs/internal/mounts"
)

func topCommand(env *environ) *cli.Command {
	var count int
	return &cli.Command{
		Name: "top", ArgsUsage: "[MNT]", Category: everyday, Usage: "watch what readers of a mount wait for",
		Description: "Shows, each second, what holds readers back, the views and processes that read, and where their time goes. Without a terminal, it prints a line each second. MNT may be left out if there is one mount.",
		UsageText: `pipefs top ~/m
pipefs top ~/m >> training.log     # a line each second`,
		Flags: []cli.Flag{opt("count", "SECONDS", "never", intoInt(&count, 1, 1<<30), "end after so many seconds")},
		Action: takes(0, 1, func(ctx context.Context, args []string) error {
			mnt := ""
			if len(args) > 0 {
				mnt = args[0]
			} else if only, err := onlyMount(); err != nil {
				return err
			} else {
				mnt = only
			}
			t := &top{ask: func(history bool) (*control.Stats, error) { return historyOf(ctx, mnt, history) }, width: 100, left: count}
			if err := t.look(); err != nil {
				return err
			}
			in, isIn := env.stdin.(*os.File)
			out, isOut := env.stdout.(*os.File)
			if !isIn || !isOut || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
				return t.lines(ctx, env.stdout)
			}
			return t.screen(ctx, in, out)
		}),
	}
}

// onlyMount is the directory of the only mount that there is.
func onlyMount() (string, error) {
	all, err := mounts.Within("/")
	if err != nil {
		return "", err
	}
	ours := slices.DeleteFunc(all, func(m *mounts.Mount) bool { return !m.Ours() })
	if len(ours) != 1 {
		return "", exit.Errorf(exit.Usage, "there are %d mounts: say which one (pipefs mounts lists them)", len(ours))
	}
	return ours[0].Mountpoint, nil
}

// top is what is watched, and shown.
type top struct {
	ask           func(history bool) (*control.Stats, error)
	width, height int
	left          int // seconds; 0: no end
	sort          int // of sortings
	help          bool

	stats         *control.Stats
	change        *account.Snapshot // since the look before
	passed        time.Duration
	files, volume []float64 // a second, the last ones
}

var sortings = []string{"files", "waiting", "errors", "name"}

// history is how many seconds sparklines show.
const history = 30

// look asks the mount.
func (t *top) look() error {
	s, err := t.ask(t.stats == nil)
	switch {
	case err != nil:
		return err
	case s.Account == nil || s.Verdict == nil:
		return fmt.Errorf("the daemon of %s has another version, and does not account for its time: mount again", s.Mount)
	}
	for _, second := range s.History {
		t.files, t.volume = append(t.files, second.Files), append(t.volume, second.Bytes)
	}
	before := s.Account
	if t.stats != nil && t.stats.PID == s.PID { // another daemon counts anew
		before = t.stats.Account
	}
	t.stats, t.change, t.passed = s, s.Account.Since(before), max(s.Account.At.Sub(before.At), time.Millisecond)
	if before != s.Account {
		total := t.change.Total()
		t.files = append(t.files, t.rate(total.Begun))
		t.volume = append(t.volume, t.rate(total.Bytes))
	}
	t.files, t.volume = t.files[max(0, len(t.files)-history):], t.volume[max(0, len(t.volume)-history):]
	return nil
}

func (t *top) rate(n int64) float64 { return float64(n) / t.passed.Seconds() }

// last reports whether this was the last second that was asked for.
func (t *top) last() bool {
	if t.left == 0 {
		return false
	}
	t.left--
	return t.left == 0
}

// lines prints a line each second.
func (t *top) lines(ctx context.Context, w io.Writer) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := t.look(); err != nil {
			return err
		}
		total := t.change.Total()
		if _, err := fmt.Fprintf(w, "%s  %.0f files/s  %s/s  %s  %s\n", t.stats.Account.At.Local().Format(time.TimeOnly), t.rate(total.Begun),
			human.Size(int64(t.rate(total.Bytes))), human.Plural(total.Errors, "error", "errors"), t.stats.Verdict.Text); err != nil {
			return err
		}
		if t.last() {
			return nil
		}
	}
}

// screen shows all on a terminal until a key ends it.
func (t *top) screen(ctx context.Context, in, out *os.File) error {
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(in.Fd()), was) }()
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l") // another screen, without a cursor
	defer fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
	keys := make(chan byte)
	go func() { // until the process ends: nothing interrupts a read of a terminal
		for b := make([]byte, 1); ; {
			if _, err := in.Read(b); err != nil {
				return
			}
			keys <- b[0]
		}
	}()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if w, h, err := term.GetSize(int(out.Fd())); err == nil && w > 0 {
			t.width, t.height = w, h
		}
		text := strings.ReplaceAll(t.view(), "\n", "\x1b[K\r\n")
		if _, err := fmt.Fprint(out, "\x1b[H", text, "\x1b[K\x1b[J"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case key := <-keys:
			if t.press(key) {
				return nil
			}
		case <-ticker.C:
			if err := t.look(); err != nil {
				return err
			}
			if t.last() {
				return nil
			}
		}
	}
}

// press does what a key says, and reports whether it ends the program.
func (t *top) press(key byte) (quits bool) {
	switch key {
	case 's':
		t.sort = (t.sort + 1) % len(sortings)
	case '?', 'h':
		t.help = !t.help
	}
	const ctrlC = 3
	return key == 'q' || key == ctrlC
}

const topHelp = `files/s   files begun each second        p50, p99  of opens and reads in the last second
read      waiting for the dataset or store        worker    waiting for a place to compute
compute   computing the steps of the view         memory    waiting for memory
copy      the remainder of requests
waits, computes, queues, sleeps: shares of a reader's time: for the mount, its own work, for a core, idle
docs/seeing.md explains the verdicts.`

// view is what the screen shows.
func (t *top) view() string {
	var b strings.Builder
	s := t.stats
	total := t.change.Total()
	fmt.Fprintf(&b, "q quits, s sorts (by %s), ? helps\n%s of %s, up %s\n", sortings[t.sort], s.Mount, s.Source, s.Account.At.Sub(s.Started).Round(time.Second))
	fmt.Fprintf(&b, "%.0f files/s %s  %s/s %s  %s\n\n", t.rate(total.Begun), sparkline(t.files), human.Size(int64(t.rate(total.Bytes))), sparkline(t.volume), human.Plural(s.Account.Total().Errors, "error", "errors"))
	b.WriteString(human.WrapAt(s.Verdict.Text, 0, t.width) + "\n")
	for _, advice := range s.Verdict.Advice {
		b.WriteString(human.WrapAt("→ "+advice, 2, t.width) + "\n")
	}
	b.WriteString("\n")
	if t.help {
		b.WriteString(topHelp + "\n\n")
	}
	t.views(&b)
	t.readers(&b)
	m, made := &t.change.Machine, &s.Account.Made
	fmt.Fprintf(&b, "daemon %s of %d cores, disk %s/s, network %s/s; made ahead %s, used %s, dropped %s\n", human.Percent(float64(m.CPU)/float64(t.passed)), m.Cores,
		human.Size(int64(t.rate(m.Disk))), human.Size(int64(t.rate(m.Network))), human.Count(made.Made), human.Count(made.Used), human.Count(made.Wasted))
	if s.Cache != "" {
		fmt.Fprintf(&b, "cache  %s\n", s.Cache)
	}
	return t.fit(b.String())
}

// fit cuts lines and columns beyond the size of the terminal.
func (t *top) fit(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if t.height > 0 && len(lines) > t.height {
		lines = lines[:t.height]
	}
	for i, line := range lines {
		if r := []rune(line); len(r) > t.width {
			lines[i] = string(r[:t.width])
		}
	}
	return strings.Join(lines, "\n")
}

func (t *top) views(b *strings.Builder) {
	views := slices.DeleteFunc(slices.Clone(t.change.Views), func(v account.Seen) bool { return v.Lookups+v.Opens+v.Reads == 0 })
	slices.SortStableFunc(views, func(x, y account.Seen) int {
		return cmp.Or([]int{cmp.Compare(y.Begun, x.Begun), cmp.Compare(y.Waited, x.Waited), cmp.Compare(y.Errors, x.Errors), 0}[t.sort], cmp.Compare(x.View, y.View))
	})
	w := human.Table(b, "view", "files/s", "bytes/s", "p50", "p99", "read", "worker", "compute", "memory", "copy", "errors")
	for _, v := range views {
		share := func(ns int64) string { return human.Percent(float64(ns) / float64(max(1, v.Waited))) }
		w.AppendRow(table.Row{v.View, fmt.Sprintf("%.0f", t.rate(v.Begun)), human.Size(int64(t.rate(v.Bytes))), time.Duration(v.Quantile(0.5)).Round(10 * time.Microsecond), time.Duration(v.Quantile(0.99)).Round(10 * time.Microsecond),
			share(v.Source), share(v.Worker), share(v.Compute), share(v.Memory), share(v.Copy), v.Errors})
	}
	human.Right(w, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	w.Render()
}

func (t *top) readers(b *strings.Builder) {
	readers := slices.DeleteFunc(slices.Clone(t.change.Readers), func(r account.Reader) bool { return len(r.Views) == 0 })
	slices.SortStableFunc(readers, func(x, y account.Reader) int {
		return cmp.Or([]int{cmp.Compare(y.Requests, x.Requests), cmp.Compare(y.Waited, x.Waited), cmp.Compare(y.Errors, x.Errors), cmp.Compare(x.Command, y.Command)}[t.sort], cmp.Compare(x.PID, y.PID))
	})
	w := human.Table(b, "process", "command", "views", "requests/s", "bytes/s", "waits", "computes", "queues", "sleeps")
	for _, r := range readers {
		all := float64(max(1, r.Waited+r.Computed+r.Queued+r.Slept))
		share := func(ns int64) string { return human.Percent(float64(ns) / all) }
		w.AppendRow(table.Row{r.PID, filepath.Base(r.Command), strings.Join(r.Views, " "), fmt.Sprintf("%.0f", t.rate(r.Requests)), human.Size(int64(t.rate(r.Bytes))),
			share(r.Waited), share(r.Computed), share(r.Queued), share(r.Slept)})
	}
	human.Right(w, 1, 4, 5, 6, 7, 8, 9)
	w.Render()
}

// sparkline draws values as bars.
func sparkline(values []float64) string {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var line []rune
	for _, v := range values {
		line = append(line, bars[int(v/max(most, 1)*float64(len(bars)-1)+0.5)])
	}
	return string(line)
}

func liveCommand(env *environ) *cli.Command {
	return &cli.Command{
		Name: "live", ArgsUsage: "MNT", Category: measuring, Usage: "show a mount as a web page",
		Description: "Prints the address of a page that shows, second by second, what holds readers back: where their time goes between disk, processor and training, rates, what requests wait for, views, readers, and files that cannot be made. The page is served at 127.0.0.1 until Ctrl-C. Its address contains a secret: whoever has it can read the page.\n" +
			"From another machine: ssh -L PORT:127.0.0.1:PORT HOST, and open the same address.",
		UsageText: `pipefs live ~/m`,
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			if _, err := statsOf(ctx, args[0]); err != nil {
				return err
			}
			s, err := live.Start(args[0], func(ctx context.Context, history bool) (*control.Stats, error) {
				return historyOf(ctx, args[0], history)
			})
			if err != nil {
				return exit.With(exit.System, err)
			}
			fmt.Fprintln(env.stdout, s.URL)
			<-ctx.Done()
			return s.Close()
		}),
	}
}
