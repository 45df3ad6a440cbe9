// Package run is what the programs of bench/research begin with.
package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Main calls a program's own main, with a context that ends when somebody interrupts it. An
// error is told, and exits with 1.
func Main(name string, main func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := main(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "bench/research/%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Paths are flags that each program has.
type Paths struct{ Program, Out string }

// Flags defines them; out is where results go by default, of which text says more.
func (p *Paths) Flags(out, text string) {
	flag.StringVar(&p.Program, "program", "bin/pipefs", "pipefs")
	flag.StringVar(&p.Out, "out", out, text)
}

// Make makes the directory Out, and both paths absolute.
func (p *Paths) Make() error {
	for _, path := range []*string{&p.Program, &p.Out} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	return os.MkdirAll(p.Out, 0o755)
}

// Work calls use with a new directory in Out, and removes it.
func (p *Paths) Work(use func(work string) error) error {
	if err := p.Make(); err != nil {
		return err
	}
	work, err := os.MkdirTemp(p.Out, "work-")
	if err != nil {
		return err
	}
	return errors.Join(use(work), os.RemoveAll(work))
}

// Command runs another program. An error has all that it printed.
func Command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
