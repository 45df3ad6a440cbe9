package mountd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/archive"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/store/blob"
)

// archivesAt reports whether a path or URL is that of archives, see package archive: of one, of a pattern, or of a
// directory that holds nothing else. It returns the directory that they are in, and the pattern of their
// names; an empty one is all archives of the directory. What a bucket holds is seen when it is listed: any may be one of archives.
func archivesAt(at string) (dir, pattern string, is bool) {
	if remote.Is(at) {
		if !archive.Is(at) && !archive.Pattern(at) {
			return at, "", !blob.IsHub(at)
		}
		dir, pattern = archive.Split(at)
		return dir, pattern, true
	}
	info, err := mounts.Stat(at)
	switch {
	case err != nil && archive.Pattern(at):
		dir, pattern = archive.Split(at)
		return cmp.Or(dir, "."), pattern, true
	case err != nil:
		return "", "", false
	case !info.IsDir():
		return filepath.Dir(at), filepath.Base(at), source.Mountable(at)
	}
	return at, "", holdsArchives(at, 0)
}

// ArchivesOf returns the paths or URLs of the archives whose members a dataset is; none if it is something else.
func ArchivesOf(d source.Dataset) []string {
	if c, is := d.(*source.Classes); is {
		d = c.Dataset
	}
	if a, is := d.(*archive.Dataset); is {
		return a.Archives()
	}
	return nil
}

const (
	// archiveNames and archiveDirs are how many names, and directories, are looked at for archives: most directories of
	// pictures are told by them.
	archiveNames, archiveDirs = 64, 4
)

// holdsArchives looks at a few names of a directory, and of some that it holds. See [archive.In].
func holdsArchives(dir string, depth int) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	entries, err := d.ReadDir(archiveNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	left := archiveDirs
	for _, e := range entries {
		if !e.IsDir() && archive.Below(e.Name(), depth) {
			return true
		}
		if e.IsDir() && depth < archive.MaxDepth && left > 0 && !strings.HasPrefix(e.Name(), ".") {
			if left--; holdsArchives(filepath.Join(dir, e.Name()), depth+1) {
				return true
			}
		}
	}
	return false
}

// openOver opens the dataset at a path or URL: the members of archives, or what under opens, which is given the directory
// that they are in.
func openOver(ctx context.Context, at string, under func(dir string) (source.Dataset, error), o archive.Options) (source.Dataset, error) {
	dir, pattern, is := archivesAt(at)
	switch {
	case !is && blob.IsHub(at):
		return openHub(ctx, at, under, o)
	case !is:
		return under(at)
	}
	in, err := under(dir)
	if err != nil {
		return nil, err
	}
	var shards []string
	if pattern == "" {
		var other string
		if shards, other, err = archive.In(in); other != "" {
			shards = nil
		}
	} else {
		shards, err = archive.Match(in, pattern)
	}
	switch {
	case err != nil:
		return nil, errors.Join(usage.With(err), in.Close())
	case len(shards) == 0:
		return in, nil
	}
	return openMembers(ctx, in, at, shards, o)
}

// openMembers opens the members of archives of a dataset.
func openMembers(ctx context.Context, in source.Dataset, at string, shards []string, o archive.Options) (source.Dataset, error) {
	if o.Dir == "" {
		root, err := CacheRoot()
		if err != nil {
			return nil, errors.Join(err, in.Close())
		}
		if o.Log == nil {
			o.Log = slog.New(slog.DiscardHandler)
		}
		a := remote.Access{Dir: root.Dir()}
		o.Dir, o.Held = a.Lists(at), a.Hold(at, o.Log)
	}
	d, err := archive.Open(ctx, in, at, shards, o)
	switch {
	case errors.Is(err, source.ErrChanged) && remote.Is(at):
		return nil, fmt.Errorf("%w since the list of the bucket was kept: pipefs mount --refresh 0s lists it again", err)
	case err != nil:
		return nil, err
	}
	return d, nil
}

// shownAsFiles says which archives of a dataset are files of it, since other files lie beside them; "" is none.
func shownAsFiles(d source.Dataset, at string) string {
	if _, _, is := archivesAt(at); !is {
		return ""
	}
	found, other, err := archive.In(d)
	if err != nil || len(found) == 0 {
		return "" // an error is that of whoever lists it
	}
	path := human.Word(strings.TrimSuffix(at, "/") + "/" + found[0])
	return fmt.Sprintf("%s is shown as a file, since %s lies beside it; pipefs mount %s MNT shows its members", found[0], other, path)
}

// openOver opens the dataset of a mount.
func (m *Mount) openOver(ctx context.Context, at string, under func(dir string) (source.Dataset, error)) (source.Dataset, error) {
	c := m.config
	over, err := openOver(ctx, at, under, archive.Options{Log: m.log, Metadata: c.Read.Metadata, Progress: m.progress(at + " to be scanned: %s members")})
	if err != nil {
		return nil, err
	}
	d, is := over.(*archive.Dataset)
	var s archive.Summary
	if is {
		s = d.Summary()
	}
	if c.Read.Metadata && len(s.Splits) == 0 {
		return nil, errors.Join(usage.Errorf("--metadata shows the columns of Parquet files, and %s has none: leave it out", at), over.Close())
	}
	if !is {
		if text := shownAsFiles(over, at); text != "" {
			c.note(text)
		}
		return over, nil
	}
	m.archives = d
	if s.LeftOut > 0 {
		c.note(fmt.Sprintf("left out: %s of %s; the log says which, and why", human.Plural(s.LeftOut, "member", "members"), at))
	}
	if !s.Located {
		c.note(fmt.Sprintf("the files of %s are being located: a file that is looked at before that takes the time to read its group of rows", at))
	}
	if len(s.Damaged) > 0 {
		c.note("what lies behind the damage is not shown of " + strings.Join(s.Damaged, "; "))
	}
	return d, nil
}

// freshnessOfArchives says when changes are seen.
func freshnessOfArchives(d *archive.Dataset) string {
	if blob.IsHub(d.Root()) {
		return ofCommit
	}
	s := d.Summary()
	return fmt.Sprintf("seen when pipefs refresh scans archives that changed: %s, %s", human.Plural(len(s.Shards), "archive", "archives"), human.Plural(s.Objects, "file", "files"))
}

// unlabelled is the directory of samples without a label, where the source has labels of its own.
func (m *Mount) unlabelled() string {
	if m.archives == nil || !m.archives.Summary().Unlabelled {
		return ""
	}
	return archive.Unlabelled
}
