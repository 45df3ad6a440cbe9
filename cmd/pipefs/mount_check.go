package main

import (
	"context"
	"io"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/daemon"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/survey"
)

// notes tells, before anything is mounted, what the user would not expect and can do
// something about. None of it keeps the mount from being made. Of a daemon that becomes
// another user, places are not those of who starts it.
func (c *mountConfig) notes(ctx context.Context, w io.Writer, becomes *daemon.User) {
	note := noter(w)
	if becomes == nil {
		c.notePlaces(note)
	}
	if remote.Is(c.Source) {
		if c.Kernel.AllowOther {
			note("other users of this machine read %s through this mount with your credentials (--allow-other)", c.Source)
		}
		return
	}
	survey.NoteLists(note, c.given, c.Dir)
	if _, nothing := lookInto(ctx, c.Source); nothing != "" {
		note("%s. What it gets later appears in the mount", nothing)
	}
}

// notePlaces tells what is odd about the directories that the daemon writes to.
func (c *mountConfig) notePlaces(note func(string, ...any)) {
	c.noteTempDir(note)
	if c.Keep.MaxBytes == 0 || c.createStore || c.Read.Store != "" && cachedir.Kept(c.Read.Store) {
		return // nothing is kept, or where the user said
	}
	if root, err := mountd.CacheRoot(); err == nil {
		survey.NoteCache(note, root.Dir(), "--create-store --store")
	}
}

// noteTempDir tells where the control socket and the log are, if somebody else has
// the usual place.
func (c *mountConfig) noteTempDir(note func(string, ...any)) {
	socket, err := control.Socket(c.Dir)
	if err != nil {
		return // mounting will say so
	}
	if why := control.Avoided(socket); why != nil {
		note("%v (until then the socket of this mount is %s)", why, socket)
	}
}
