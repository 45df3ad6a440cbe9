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

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/shell"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/transcode"
)

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

var shellWord = shell.Word
