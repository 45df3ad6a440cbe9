package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/store"
)

// askSwapped refuses the arguments of a command if the source is a place for the target, and the
// target holds pictures.
func askSwapped(ctx context.Context, command, source, target string) error {
	if remote.Is(source) || remote.Is(target) {
		return nil
	}
	isStore := func(dir string) bool {
		is, err := store.Is(dir)
		return err == nil && is
	}
	what, holds := vacant(source), "holds pictures"
	if command == "pack" && isStore(source) {
		what = "is a store"
	}
	if what == "" {
		return nil
	}
	switch l, _ := lookInto(ctx, target); {
	case command == "mount" && isStore(target):
		holds = "is a store"
	case len(l.Samples) == 0:
		return nil
	}
	return exit.Errorf(exit.Usage, "%s %s, and %s %s; did you mean: pipefs %s %s %s", source, what, target, holds, command, shellWord(target), shellWord(source))
}

// vacant says that a path does not exist, or is an empty directory; "" is anything else.
func vacant(path string) string {
	d, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "does not exist"
	}
	if err != nil {
		return ""
	}
	defer d.Close()
	if _, err := d.Readdirnames(1); errors.Is(err, io.EOF) {
		return "is an empty directory"
	}
	return ""
}
