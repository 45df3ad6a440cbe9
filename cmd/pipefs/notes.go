package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/listfiles"
	"github.com/pipefs/pipefs/internal/mounts"
)

// notes tells, before anything is mounted, what the user would not expect and can do
// something about. None of it keeps the mount from being made.
func (c *mountConfig) notes(w io.Writer) {
	note := noter(w)
	c.noteTempDir(note)
	noteLists(note, c.given, c.dir)
	if !mayHoldFiles(c.source) {
		note("%s is empty: there is no file in it, and so none in any view. What it gets later appears in the mount", c.source)
	}
}

func noter(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, "pipefs: note: "+format+"\n", args...) }
}

// noteLists names files of a dataset that lead past its mount at dir.
func noteLists(note func(string, ...any), dataset, dir string) {
	abs, err := filepath.Abs(dataset)
	if err != nil {
		return
	}
	real, err := mounts.Resolve(abs)
	if err != nil {
		return
	}
	if found := listfiles.Look(real, abs, real); len(found) > 0 {
		note("%s: absolute paths into %s; a loader that follows them reads past the mount. Write relative paths there, or those of a view: %s/VIEW/…", found, abs, dir)
	}
}

// noteTempDir tells where the control socket and the log are, if somebody else has
// the usual place.
func (c *mountConfig) noteTempDir(note func(string, ...any)) {
	socket, err := control.Socket(c.dir)
	if err != nil {
		return // mounting will say so
	}
	if why := control.Avoided(socket); why != nil {
		note("%v (until then the socket of this mount is %s)", why, socket)
	}
}
