package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// tellNext says where to train from, and how to unmount.
func (c *mountConfig) tellNext(w io.Writer) {
	g := c.glance()
	usual := []string{transcode.Original}
	if g.samples {
		usual = []string{"resize256-bmp", "bmp-own"}
	}
	var paths []string
	for _, view := range slices.Concat(c.Views.List, usual) {
		path := filepath.Join(c.Dir, view, g.train)
		if _, err := mounts.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			paths = append(paths, shellWord(path))
		}
	}
	if paths == nil {
		paths = []string{shellWord(c.Dir) + "/VIEW"}
	}
	from := strings.Join(paths[:min(len(paths), 3)], " or ")
	fmt.Fprintf(w, "pipefs: train from %s (pipefs views --help says which others there are); end with: pipefs umount %s\n", from, shellWord(c.Dir))
	c.tellKept(w)
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

// glimpse is what a short look at the names of a dataset showed.
type glimpse struct {
	samples bool   // there are some
	train   string // a directory at the top with a name that is usual for training
}

// glance looks at some names of what is mounted, for no longer than a person waits.
func (c *mountConfig) glance() glimpse {
	const patience = 2 * time.Second
	dir := c.Source
	if is, err := store.Is(dir); remote.Is(dir) || err == nil && is {
		dir = filepath.Join(c.Dir, transcode.Original)
	}
	// What does not answer in time was not seen.
	g, _ := mounts.Answer(dir, patience, func() (glimpse, error) {
		var g glimpse
		left := 64 // directories
		g.look(codecs.Default(c.Limits), dir, &left)
		for _, name := range []string{"train", "training"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() && g.train == "" {
				g.train = name
			}
		}
		return g, nil
	})
	return g
}

// look reads the first names of a directory and of those below it, until it has seen a sample.
func (g *glimpse) look(r *transcode.Registry, dir string, left *int) {
	const names = 200
	if *left--; *left < 0 || g.samples {
		return
	}
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	entries, _ := d.ReadDir(names) // what there is of it
	d.Close()
	for _, e := range entries {
		if e.IsDir() {
			g.look(r, filepath.Join(dir, e.Name()), left)
		} else if r.IsSample(e.Name()) {
			g.samples = true
			return
		}
	}
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord writes a path so that a shell takes it for one word.
func shellWord(path string) string {
	if plainWord.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
