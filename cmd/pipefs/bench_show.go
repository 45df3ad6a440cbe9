package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/page"
	"github.com/pipefs/pipefs/bench/text"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/terminal"
)

// showComparison writes the report in every form that was asked for.
func showComparison(env *environ, c *benchConfig, r *views.Report) error {
	// What was measured is told even where no page can be written.
	err := c.page(r)
	if c.asJSON {
		return errors.Join(err, terminal.PrintJSON(env.stdout, r))
	}
	text.Views(env.stdout, r)
	return err
}

// page writes the page, if it was asked for.
func (c *benchConfig) page(r *views.Report) error {
	if c.html == "" {
		return nil
	}
	return writeWhole(c.html, func(w io.Writer) error { return page.Write(w, r) })
}

// checkPage refuses a file that cannot be written, before hours of measuring. The file is
// empty where none was given.
func checkPage(file string) error {
	if file == "" {
		return nil
	}
	dir := filepath.Dir(file)
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir():
		return exit.Errorf(exit.Usage, "--html %s is a directory; name a file in it", file)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return exit.Errorf(exit.Usage, "--html: %w", err)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.Usage, "--html %s: there is no directory %s; make it first: mkdir -p %[2]s", file, dir)
	} else if err != nil {
		return exit.Errorf(exit.Usage, "--html %s: the directory cannot be written to: %w", file, err)
	}
	return nil
}

// writeWhole writes a file that has its name when it is whole.
func writeWhole(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := renameio.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
