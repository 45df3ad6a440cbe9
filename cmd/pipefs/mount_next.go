package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/transcode"
)

// tellNext says where to train from, and how to unmount.
func (c *mountConfig) tellNext(ctx context.Context, env *environ) {
	next := c.peek(ctx, env)
	var paths []string
	for _, view := range slices.Concat(c.Views.List, next.views) {
		path := filepath.Join(c.Dir, view, next.train)
		if _, err := mounts.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			paths = append(paths, shellWord(path))
		}
	}
	if paths == nil {
		paths = []string{shellWord(c.Dir) + "/VIEW"}
	}
	from := strings.Join(paths[:min(len(paths), 3)], " or ")
	fmt.Fprintf(env.stderr, "pipefs: train from %s (pipefs views --help says which others there are); end with: pipefs umount %s\n", from, shellWord(c.Dir))
	next.noteTurned(noter(env.stderr))
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
		fmt.Fprintf(w, "pipefs: what it prepares is kept in %s, %s at most %s (pipefs cache --help)\n", shellWord(root.Dir()), formatSize(limit), what)
	}
}

// peekPatience is how long a person waits for what a look at a dataset tells.
const peekPatience = 2 * time.Second

// mountPeek is what a mount tells of its dataset.
type mountPeek struct {
	datasetPeek
	views []string // to train from
	train string   // a directory at the top with a name that is usual for training
}

// peek looks at a few samples of what is mounted. What it does not see in time does not count.
func (c *mountConfig) peek(ctx context.Context, env *environ) mountPeek {
	from := opening{path: c.Source, roles: c.Roles, limits: c.Limits}
	if remote.Is(c.Source) {
		from.path = filepath.Join(c.Dir, transcode.Original)
	}
	ctx, cancel := context.WithTimeout(ctx, peekPatience)
	defer cancel()
	seen, err := mounts.Answer(from.path, 2*peekPatience, func() (seen mountPeek, err error) {
		s, err := from.open(ctx, env)
		if err != nil {
			return seen, err
		}
		defer s.close()
		l, err := s.listFirst(ctx)
		seen.datasetPeek = *s.peek(ctx, l, c.Roles, peekSamples)
		if seen.views = seen.recommended(s.registry); len(l.samples) == 0 {
			seen.views = []string{transcode.Original}
		}
		for _, name := range []string{"train", "training"} {
			if at, err := s.tree.Stat(name); err == nil && at.Mode.IsDir() && seen.train == "" {
				seen.train = name
			}
		}
		return seen, err
	})
	if err != nil {
		seen.views = []string{transcode.Original}
	}
	return seen
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord writes a path so that a shell takes it for one word.
func shellWord(path string) string {
	if plainWord.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
