package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/daemon"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// resolve makes the two paths what the kernel will call them.
func (c *mountConfig) resolve() error {
	source, err := resolveSource(c.Source)
	if err != nil {
		return exit.With(exit.Mount, err)
	}
	c.Source = source
	dir, err := mounts.Resolve(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.Mount, "the mount directory %s does not exist; make it first: mkdir -p %s", c.Dir, c.Dir)
	}
	c.Dir = dir
	return exit.With(exit.Mount, err)
}

// resolveSource makes the path of a dataset or store what the kernel will call it. A URL stays
// as it is.
func resolveSource(given string) (string, error) {
	if remote.Is(given) {
		return placeOf(given)
	}
	if err := statSource(given); err != nil {
		return "", err
	}
	return mounts.Resolve(given)
}

// check refuses what cannot work, before anything is started. It reports whether
// a dead mount is in the way.
func (c *mountConfig) check(ctx context.Context, env *environ) (dead bool, err error) {
	if !c.nonempty {
		if err := askSwapped(ctx, "mount", c.Source, c.Dir); err != nil {
			return false, err
		}
	}
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
	if err := c.checkStore(ctx); err != nil {
		return false, err
	}
	if !remote.Is(c.Source) {
		if err := mounts.Apart(c.Dir, c.Source); err != nil {
			return false, exit.With(exit.Mount, err)
		}
	}
	if c.Kernel.AllowOther {
		if err := mounts.CheckAllowOther(); err != nil {
			return false, exit.With(exit.Usage, err)
		}
	}
	dead, err = mounts.Check(c.Dir, c.nonempty)
	if err != nil {
		return false, exit.With(exit.Mount, err)
	}
	at := c.Dir
	if dead {
		at = "" // clearDead looks at the directory: until then the dead mount hides it
	}
	if err := mounts.CheckFUSE(at); err != nil {
		return dead, err
	}
	return dead, c.checkRoles(ctx, env)
}

// checkLists refuses lists that are not there, and two with one name.
func (c *mountConfig) checkLists() error {
	seen := map[string]string{}
	for _, file := range c.Views.Lists {
		name := filepath.Base(file)
		if other, again := seen[name]; again && other != file {
			return exit.Errorf(exit.Usage, "--list %s and --list %s have one name, and so one path below MNT/.epoch: rename one of them", other, file)
		}
		seen[name] = file
		if _, err := os.Stat(file); err != nil {
			return exit.Errorf(exit.Usage, "--list: %w", err)
		}
	}
	return nil
}

// checkCache refuses options that need another cache.
func (c *mountConfig) checkCache() error {
	mix := c.Views.Mix
	if c.Cache.Direct && (remote.Is(c.Source) || remote.Is(c.Read.Store)) {
		return exit.Errorf(exit.Usage, "--direct reads packs of this machine past the page cache, and these are in a bucket; leave it out")
	}
	if c.Cache.Mode != pfs.DaemonCache {
		switch {
		case c.Cache.Policy != "":
			return exit.Errorf(exit.Usage, "--cache-policy %s needs --cache daemon: with --cache page the kernel decides what it keeps", c.Cache.Policy)
		case c.Cache.Direct:
			return exit.Errorf(exit.Usage, "--direct needs --cache daemon: the kernel's cache is the only one otherwise")
		case mix.Adaptive:
			return exit.Errorf(exit.Usage, "--mix adaptive needs --cache daemon: with --cache page the kernel opens files without telling, and would keep pages of both")
		}
	}
	if mix.Adaptive && strings.HasPrefix(mix.Format, transcode.Stored+"-") {
		return exit.Errorf(exit.Usage, "--mix adaptive changes from read to read, and the files of %s never do; it goes with --mix-format bmp or ppm", mix.Format)
	}
	return nil
}

// checkStore refuses a --store that is not what its name says: a mistyped path would
// be made, and read from as if it were prepared.
func (c *mountConfig) checkStore(ctx context.Context) error {
	mounted, err := isStore(ctx, c.Remote, c.Source)
	switch {
	case err != nil:
		return exit.With(exit.Mount, err)
	case mounted && c.Read.Manifest != "":
		return exit.Errorf(exit.Usage, "--manifest lists the files of a dataset, and %s is a store, which knows its names: leave it out", c.Source)
	case c.Read.Refresh >= 0 && !mounted && !remote.Is(c.Source) && c.Read.Store == "":
		return exit.Errorf(exit.Usage, "--refresh goes with a store, or with a dataset in a bucket, and %s is neither: changes of a directory are seen without it", c.Source)
	case c.Read.Refresh >= 0 && c.Read.Manifest != "" && c.Read.Store == "":
		return exit.Errorf(exit.Usage, "--refresh says when the bucket is listed, and with --manifest it never is: leave out one of them")
	case c.Read.Dataset != "" && !mounted:
		return exit.Errorf(exit.Usage, "--dataset goes with a store, and %s is none: leave it out", c.Source)
	case c.Read.Store == "" && c.createStore:
		return exit.Errorf(exit.Usage, "--create-store goes with --store DIR, the directory in which to keep what the mount prepares")
	case c.Read.Store == "":
		return nil
	}
	is, err := isStore(ctx, c.Remote, c.Read.Store)
	switch {
	case err != nil:
		return exit.With(exit.Mount, fmt.Errorf("--store: %w", err))
	case is && mounted:
		return exit.Errorf(exit.Usage, "--store %s: %s is a store itself, and a mount reads from one; leave --store out, or mount the dataset", c.Read.Store, c.Source)
	case is && c.createStore:
		return exit.Errorf(exit.Usage, "--create-store: %s is a store already; leave --create-store out to read from it", c.Read.Store)
	case is, c.createStore, cachedir.Kept(c.Read.Store):
		return nil
	}
	what := "is no store"
	if _, err := os.Lstat(c.Read.Store); errors.Is(err, fs.ErrNotExist) {
		what = "does not exist"
	}
	return exit.Errorf(exit.Mount, "--store %s %s; pipefs pack makes one (a directory in which to keep what this mount prepares is made by --create-store)", c.Read.Store, what)
}

// checkRoles looks through the dataset only if there is something to look for.
func (c *mountConfig) checkRoles(ctx context.Context, env *environ) error {
	if !c.Roles.Given() {
		return nil
	}
	s, err := opening{path: c.Source, remote: c.Remote, roles: c.Roles, limits: c.Limits}.open(ctx, env)
	if err != nil {
		return exit.With(exit.Mount, err)
	}
	s.close()
	return nil
}

// clearDead takes away what a crashed daemon left behind.
func clearDead(env *environ, c *mountConfig) error {
	// more than one, if earlier ones were mounted over each other
	for range 16 {
		place, err := mounts.PlaceOf(c.Dir)
		if err == nil {
			_, err = place.ClearDead()
		}
		if err != nil {
			return exit.With(exit.Mount, fmt.Errorf("a dead mount is in the way: %w", err))
		}
		fmt.Fprintf(env.stderr, "pipefs: %s held a dead mount, whose daemon was gone; unmounted it\n", c.Dir)
		dead, err := mounts.Check(c.Dir, c.nonempty)
		if err != nil {
			return exit.With(exit.Mount, err)
		}
		if !dead {
			return mounts.CheckFUSE(c.Dir)
		}
	}
	return exit.Errorf(exit.Mount, "%s holds more than 16 dead mounts; unmount them first: umount -l %s", c.Dir, c.Dir)
}

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
	noteLists(note, c.given, c.Dir)
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
		noteCache(note, root.Dir(), "--create-store --store")
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
