package main

import (
	"fmt"
	"io"

	"github.com/pipefs/pipefs/internal/control"
)

// notes tells, before anything is mounted, what the user would not expect and can do
// something about. None of it keeps the mount from being made.
func (c *mountConfig) notes(w io.Writer) {
	note := func(format string, args ...any) { fmt.Fprintf(w, "pipefs: note: "+format+"\n", args...) }
	c.noteTempDir(note)
	if !mayHoldFiles(c.source) {
		note("%s is empty: there is no file in it, and so none in any view. What it gets later appears in the mount", c.source)
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
