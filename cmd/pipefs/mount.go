package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/supervise"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/transcode"
)

// mountConfig is all that a mount can be told.
type mountConfig struct {
	// The supervisor and the daemon are handed what is exported, as JSON.
	mountd.Config
	LogFormat string
	LogLevel  string
	Patience  time.Duration // until the mount answers
	Supervise bool
	Deaths    int           // within a minute, that end a supervised mount
	Hung      time.Duration // of its daemon, before it is started again
	SetUID    string        // name or number of a user; or ownerUser

	given       string // the source as the user wrote it
	followGiven bool   // --no-follow
	seedGiven   bool   // --seed
	foreground  bool
	dryRun      bool
	createStore bool
	nonempty    bool
	shared      bool
	takeover    bool
	holder      int // descriptor over which a holder is given its connection; 0 for none
}

// notes tells, before anything is mounted, what the user would not expect and can do
// something about. None of it keeps the mount from being made. Of a daemon that becomes
// another user, places are not those of who starts it.
func (c *mountConfig) notes(ctx context.Context, w io.Writer, becomes *supervise.User) {
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

// tellNext says where to train from, and how to unmount.
func (c *mountConfig) tellNext(ctx context.Context, env *environ) {
	k := c.peek(ctx, env)
	var paths []string
	for _, view := range slices.Concat(c.Views.List, k.Recommended) {
		for _, usual := range []string{"train", "training", ""} {
			path := filepath.Join(c.Dir, view, usual)
			if _, err := mounts.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				paths = append(paths, shellWord(path))
				break
			}
		}
	}
	if paths == nil {
		paths = []string{shellWord(c.Dir) + "/VIEW"}
	}
	from := strings.Join(paths[:min(len(paths), 3)], " or ")
	fmt.Fprintf(env.stderr, "pipefs: train from %s (pipefs views --help says which others there are); end with: pipefs umount %s\n", from, shellWord(c.Dir))
	k.NoteTurned(noter(env.stderr))
	k.NoteExact(noter(env.stderr))
	c.tellKept(env.stderr)
}

// tellKept says where the mount keeps what it prepares, and how much of it at most. A
// daemon that became another user keeps it in that user's directory.
func (c *mountConfig) tellKept(w io.Writer) {
	if becomes, err := c.user(); err != nil || becomes != nil || c.Keep.MaxBytes == 0 || c.Read.Store != "" {
		return // nothing is kept, or where the user said
	}
	root, err := mountd.CacheRoot()
	if err != nil {
		return
	}
	limit, _, err := root.Limit()
	what := "for all mounts"
	if c.Keep.MaxBytes > 0 {
		limit, what = c.Keep.MaxBytes, "for this mount"
	}
	if err == nil {
		fmt.Fprintf(w, "pipefs: what it prepares is kept in %s, %s at most %s (pipefs cache --help)\n", shellWord(root.Dir()), human.Size(limit), what)
	}
}

// peek looks at a few samples of what is mounted. What it does not see in time does not count.
func (c *mountConfig) peek(ctx context.Context, env *environ) *survey.Peek {
	from := mountd.SourceOptions{Path: c.Source, Roles: c.Roles, Limits: c.Limits, Peek: true}
	samples := survey.FirstSamples
	if remote.Is(c.Source) {
		from.Path, samples = filepath.Join(c.Dir, transcode.Original), survey.FirstFetched
	}
	ctx, cancel := context.WithTimeout(ctx, survey.Patience)
	defer cancel()
	k, err := mounts.Answer(from.Path, 2*survey.Patience, func() (*survey.Peek, error) {
		s, err := openSource(ctx, env, from)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		l, err := s.List(ctx, nil)
		return survey.Look(ctx, s, l, c.Roles, samples), err
	})
	if err != nil {
		return &survey.Peek{Recommended: []string{transcode.Original}}
	}
	return k
}

var shellWord = human.Word
