package loader

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/shell"
)

// viewWord stands for the directory in a user's command.
const viewWord = "{view}"

// Command is a program of the user's that reads an epoch of a directory.
type Command struct{ line string }

var _ Loader = (*Command)(nil)

// NewCommand makes a loader of a line for sh, in which {view} is where the directory
// goes.
func NewCommand(line string) (*Command, error) {
	if !strings.Contains(line, viewWord) {
		return nil, fmt.Errorf("the command %q does not say where the directory goes: write %s there", line, viewWord)
	}
	return &Command{line}, nil
}

// Name implements [Loader].
func (c *Command) Name() string { return c.line }

// Close implements [Loader].
func (c *Command) Close() error { return nil }

// Epoch implements [Loader]. Seconds are those of the whole command, its start included.
// The rate is the one in the last line that the command prints. If there is none, it is
// the number of samples by the seconds, or 0 where that number is not known, since Files
// may be nil. The command does not get Seed, Warm and Compute. Disk is what this process
// read meanwhile.
func (c *Command) Epoch(ctx context.Context, job Job) (Epoch, error) {
	dir, err := filepath.Abs(job.Dir)
	if err != nil {
		return Epoch{}, err
	}
	if err := ctx.Err(); err != nil {
		return Epoch{}, err
	}
	line := strings.ReplaceAll(c.line, viewWord, shell.Word(dir))
	cmd := exec.Command("sh", "-c", line)
	stdout := tail{most: 64 << 10}
	cmd.Stdout = &stdout
	began, disk := time.Now(), OwnDisk()
	p, err := start(cmd)
	if err != nil {
		return Epoch{}, err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.kill()
	}
	e := Epoch{Seconds: time.Since(began).Seconds(), Disk: OwnDisk() - disk}
	if p.err != nil || ctx.Err() != nil {
		return Epoch{}, p.failure(ctx, line)
	}
	e.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	said := parseSaid(stdout.lines(1))
	e.Samples, e.Bytes, e.Rate = len(job.Files), said.bytes, said.rate
	if job.Files == nil {
		e.Samples = said.samples
	}
	if e.Rate == 0 {
		e.Rate = float64(e.Samples) / e.Seconds
	}
	return e, nil
}
