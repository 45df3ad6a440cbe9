package mountd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// MountError is an error that lies in what is to be mounted, or where.
type MountError struct{ Err error }

func (e *MountError) Error() string { return e.Err.Error() }
func (e *MountError) Unwrap() error { return e.Err }

func mountErrorf(format string, args ...any) error {
	return &MountError{fmt.Errorf(format, args...)}
}

// CheckOptions are what [Config.Check] has to know beside the Config.
type CheckOptions struct {
	// CreateStore: Read.Store is a directory that is to be made, or that is empty.
	CreateStore bool
	// NonEmpty mounts over a directory that holds something.
	NonEmpty bool
	Log      *slog.Logger // nil is silent
}

// Resolve makes the two paths what the kernel will call them. Its errors are of type MountError,
// or of usage.
func (c *Config) Resolve(ctx context.Context) error {
	source, err := ResolveSource(ctx, c.Remote, c.Source)
	if err != nil {
		return &MountError{err}
	}
	dir, err := mounts.Resolve(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mountErrorf("the mount directory %s does not exist; make it first: mkdir -p %s", c.Dir, c.Dir)
	case err != nil:
		return &MountError{err}
	}
	c.Source, c.Dir = source, dir
	return nil
}

// Check refuses what cannot work, before anything is started: what does not go together with an
// error of usage, and what lies in the source or the directory with a MountError; any other error
// is one of the system. It reports whether a dead mount is in the way, see [Config.ClearDead].
func (c *Config) Check(ctx context.Context, o CheckOptions) (dead bool, err error) {
	r := codecs.Default(transcode.Limits{})
	for _, spec := range c.Views.List {
		if _, err := r.Parse(spec); err != nil {
			return false, err
		}
	}
	if err := c.checkLists(); err != nil {
		return false, err
	}
	if err := c.checkCache(); err != nil {
		return false, err
	}
	if err := c.checkStore(ctx, o); err != nil {
		return false, err
	}
	if !remote.Is(c.Source) {
		if err := mounts.Apart(c.Dir, c.Source); err != nil {
			return false, &MountError{err}
		}
	}
	if c.Kernel.AllowOther {
		if err := mounts.CheckAllowOther(); err != nil {
			return false, usage.With(err)
		}
	}
	if dead, err = mounts.Check(c.Dir, o.NonEmpty); err != nil {
		return false, &MountError{err}
	}
	at := c.Dir
	if dead {
		at = "" // ClearDead looks at the directory: until then the dead mount hides it
	}
	if err := mounts.CheckFUSE(at); err != nil || !c.Roles.Given() {
		return dead, err
	}
	// The dataset is looked through only if there is something to look for.
	s, err := OpenSource(ctx, SourceOptions{Path: c.Source, Remote: c.Remote, Classes: c.Read.Classes, Roles: c.Roles, Limits: c.Limits, Log: o.Log})
	if err != nil {
		return dead, &MountError{err}
	}
	s.Close()
	if s.unpaired != "" && o.Log != nil {
		o.Log.Warn(s.unpaired)
	}
	return dead, nil
}

// checkLists refuses lists that are not there, and two with one name.
func (c *Config) checkLists() error {
	seen := map[string]string{}
	for _, file := range c.Views.Lists {
		name := filepath.Base(file)
		if other, again := seen[name]; again && other != file {
			return usage.Errorf("--list %s and --list %s have one name, and so one path below MNT/.epoch: rename one of them", other, file)
		}
		seen[name] = file
		if _, err := os.Stat(file); err != nil {
			return usage.Errorf("--list: %w", err)
		}
	}
	return nil
}

// checkCache refuses options that need another cache.
func (c *Config) checkCache() error {
	mix := c.Views.Mix
	if c.Cache.Direct && (remote.Is(c.Source) || remote.Is(c.Read.Store)) {
		return usage.Errorf("--direct reads packs of this machine past the page cache, and these are in a bucket; leave it out")
	}
	if c.Cache.Mode != pfs.DaemonCache {
		switch {
		case c.Cache.Direct:
			return usage.Errorf("--direct needs --cache daemon: the kernel's cache is the only one otherwise")
		case mix.Adaptive:
			return usage.Errorf("--mix adaptive needs --cache daemon: with --cache page the kernel opens files without telling, and would keep pages of both")
		}
	}
	if mix.Adaptive && strings.HasPrefix(mix.Format, transcode.Stored+"-") {
		return usage.Errorf("--mix adaptive changes from read to read, and the files of %s never do; it goes with --mix-format bmp or ppm", mix.Format)
	}
	return nil
}

func classesOfStore(at string) error {
	return usage.Errorf("--classes makes directories of a dataset, and %s is a store, whose directories are made by pipefs pack --classes: leave it out", at)
}

// checkStore refuses a --store that is not what its name says: a mistyped path would
// be made, and read from as if it were prepared.
func (c *Config) checkStore(ctx context.Context, o CheckOptions) error {
	mounted, err := c.isStore(ctx, c.Source)
	switch {
	case err != nil:
		return err
	case mounted && c.Read.Classes != "":
		return classesOfStore(c.Source)
	case mounted && c.Read.Metadata:
		return usage.Errorf("--metadata shows the columns of Parquet files, and %s is a store: leave it out", c.Source)
	case mounted && c.Read.Manifest != "":
		return usage.Errorf("--manifest lists the files of a dataset, and %s is a store, which knows its names: leave it out", c.Source)
	case c.Read.Refresh >= 0 && !mounted && !remote.Is(c.Source) && c.Read.Store == "":
		return usage.Errorf("--refresh goes with a store, or with a dataset in a bucket, and %s is neither: changes of a directory are seen without it", c.Source)
	case c.Read.Refresh >= 0 && c.Read.Manifest != "" && c.Read.Store == "":
		return usage.Errorf("--refresh says when the bucket is listed, and with --manifest it never is: leave out one of them")
	case c.Read.Dataset != "" && !mounted:
		return usage.Errorf("--dataset goes with a store, and %s is none: leave it out", c.Source)
	case c.Read.Store == "" && o.CreateStore:
		return usage.Errorf("--create-store goes with --store DIR, the directory in which to keep what the mount prepares")
	case c.Read.Store == "":
		return nil
	}
	is, err := c.isStore(ctx, c.Read.Store)
	switch {
	case err != nil:
		return fmt.Errorf("--store: %w", err)
	case is && mounted:
		return usage.Errorf("--store %s: %s is a store itself, and a mount reads from one; leave --store out, or mount the dataset", c.Read.Store, c.Source)
	case is && o.CreateStore:
		return usage.Errorf("--create-store: %s is a store already; leave --create-store out to read from it", c.Read.Store)
	case is, o.CreateStore, cachedir.Kept(c.Read.Store):
		return nil
	}
	what := "is no store"
	if _, err := os.Lstat(c.Read.Store); errors.Is(err, fs.ErrNotExist) {
		what = "does not exist"
	}
	return mountErrorf("--store %s %s; pipefs pack makes one (a directory in which to keep what this mount prepares is made by --create-store)", c.Read.Store, what)
}

// isStore reports whether there is a store at a path or a URL.
func (c *Config) isStore(ctx context.Context, place string) (bool, error) {
	files, done, err := OpenFiles(ctx, c.Remote, place, remote.Options{})
	if err != nil {
		return false, err
	}
	defer done()
	is, err := store.IsIn(files, place)
	if err != nil {
		return false, &MountError{err}
	}
	return is, nil
}

// ClearDead unmounts what crashed daemons left behind, and tells cleared of each.
func (c *Config) ClearDead(o CheckOptions, cleared func()) error {
	// more than one, if earlier ones were mounted over each other
	for range 16 {
		place, err := mounts.PlaceOf(c.Dir)
		if err == nil {
			_, err = place.ClearDead()
		}
		if err != nil {
			return mountErrorf("a dead mount is in the way: %w", err)
		}
		cleared()
		dead, err := mounts.Check(c.Dir, o.NonEmpty)
		if err != nil {
			return &MountError{err}
		}
		if !dead {
			return mounts.CheckFUSE(c.Dir)
		}
	}
	return mountErrorf("%s holds more than 16 dead mounts; unmount them first: umount -l %s", c.Dir, c.Dir)
}
