package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/l3gpu/share"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// running is a mount and all that stands behind it.
type running struct {
	config   *mountConfig
	note     func(string) // tells the user something
	registry *transcode.Registry
	fs       *fs.FS
	mount    *fs.Mountpoint
	place    mounts.Place
	producer *serve.Server
	control  *control.Server
	overlay  *store.Overlay
	gpu      *l3gpu.Starting // nil with --gpu off
	share    *share.Server   // nil without --gpu-share
	packed   string          // the store's directory, if there is one
	listed   []string        // the views that the root lists
	gaps     *gaps           // of the views that it might list
	fresh    freshness
	started  time.Time
	// close holds what has to be closed, the first one opened first.
	close []func() error
}

// openMount opens what is mounted, and mounts it. What the user should know of it is told
// to note.
func openMount(ctx context.Context, c *mountConfig, log *slog.Logger, note func(string)) (_ mounted, err error) {
	m := &running{config: c, note: note, started: time.Now()}
	defer func() {
		if err != nil {
			_ = m.Close()
		}
	}()
	if c.premount != nil {
		c.notePlaces(func(format string, args ...any) { note(fmt.Sprintf(format, args...)) })
	}
	o := serve.Options{
		Roles: c.roles, CacheBytes: max(c.cacheBytes, 1), // 0 is the default there
		Memfd:   c.cache == "daemon",
		Workers: c.workers, Log: log,
	}
	if err := m.openSources(c, &o, log); err != nil {
		return nil, err
	}
	if m.packed != "" && m.packed != c.source {
		if was := o.Store.Stats().Dataset; was != c.source {
			note(fmt.Sprintf("%s was packed from %s: samples that differ in %s are not read from it, but made", c.store, was, c.source))
		}
	}
	backend, err := m.openGPU(c, log)
	if err != nil {
		return nil, err
	}
	m.registry = registryOn(c.limits, o.Store, backend)
	o.Registry = m.registry
	tuned := m.tuned(log)
	mix := c.mix.mixView(tuned, o.Store)
	o.Policy = c.mix.policy(c.cache, storedShare(o.Store, mix))
	if err = c.caching.wire(c.cache, &o); err != nil {
		return nil, err
	}
	if m.producer, err = serve.New(o); err != nil {
		return nil, err
	}
	m.close = append(m.close, m.producer.Close)
	if !c.noBack {
		m.producer.Prepare()
	}
	socket, err := control.Socket(c.dir)
	if err != nil {
		return nil, err
	}
	links := m.links(mix, tuned)
	if m.fs, err = m.newFS(socket, links, log); err != nil {
		return nil, err
	}
	moved, err := m.setLinks(links)
	if err != nil {
		return nil, err
	}
	if text := m.gaps.describe(moved...); text != "" {
		note(text)
	}
	if m.packed != c.source {
		m.fresh.tell(note)
	}
	if m.control, err = control.Serve(socket, m.handlers(), log); err != nil {
		return nil, err
	}
	m.close = append(m.close, m.control.Close)
	if err := m.shareGPU(c, log); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, exit.Errorf(exit.Interrupted, "interrupted before the mount was made")
	}
	c.caching.answerAtOnce(c.cache)
	m.mount, err = fs.Mount(c.dir, m.fs, c.kernelOptions())
	if err != nil {
		return nil, exit.With(exit.Mount, err) // which names the directory
	}
	if m.place, err = mounts.PlaceOf(c.dir); err != nil {
		return nil, errors.Join(err, m.mount.UnmountLazily())
	}
	return m, nil
}

// limit is what everything that the mount reads draws on; nil is as fast as can be.
func (c *mountConfig) limit(log *slog.Logger) *vfs.Bucket {
	limit := vfs.NewBucket(c.limitRead, c.limitReads)
	if limit != nil {
		log.Warn("reads are slowed down, for measurements", "bytes_per_second", c.limitRead, "reads_per_second", c.limitReads)
	}
	return limit
}

// limited is files, read as fast as limit allows; nil files are the system's.
func limited(files vfs.FS, limit *vfs.Bucket) vfs.FS {
	if files == nil {
		files = vfs.OS
	}
	return vfs.Throttled(files, limit)
}

// openSources opens dataset, store and overlay.
func (m *running) openSources(c *mountConfig, o *serve.Options, log *slog.Logger) error {
	limit := c.limit(log)
	options := store.Options{Logger: log, VerifyOnce: c.verify == "once", FS: limited(c.caching.files(), limit)}
	packed, err := store.Open(c.source, options)
	switch {
	case err == nil: // a store is mounted
		m.close = append(m.close, packed.Close)
		m.packed = c.source
		o.Store, o.Source = packed, serve.StoreTree(packed)
	case !errors.Is(err, store.ErrNotStore):
		return exit.With(exit.Mount, fmt.Errorf("store %s: %w", c.source, err))
	case c.dataset != "":
		return exit.Errorf(exit.Usage, "--dataset goes with a store, and %s is none: leave it out", c.source)
	}
	var shown *source.Directory
	from := c.source
	if packed != nil {
		from = c.dataset
	}
	if from != "" {
		d, err := source.Open(from, source.Options{NoFollow: c.noFollow, Log: log, Limit: limit})
		if err != nil {
			return exit.With(exit.Mount, err)
		}
		m.close = append(m.close, d.Close)
		o.Dataset = d
		if packed == nil {
			o.Source, shown = d, d
		}
	}
	if m.fresh = freshnessOf(shown, c.immutable); m.fresh.watcher != nil {
		m.close = append(m.close, m.fresh.watcher.Close)
	}
	keep := c.store
	if packed == nil && c.store != "" {
		attached, err := store.Open(c.store, options)
		switch {
		case err == nil:
			m.close = append(m.close, attached.Close)
			m.packed = c.store
			o.Store, keep = attached, ""
		case !errors.Is(err, store.ErrNotStore) && !errors.Is(err, os.ErrNotExist):
			return exit.With(exit.Mount, fmt.Errorf("store %s: %w", c.store, err))
		}
	}
	return m.openOverlay(c, keep, o, limit, log)
}

// openOverlay opens what keeps that which this mount prepares. A mount works
// without: then it keeps nothing.
func (m *running) openOverlay(c *mountConfig, dir string, o *serve.Options, limit *vfs.Bucket, log *slog.Logger) error {
	if c.storeMax == 0 {
		log.Info("nothing that is prepared is kept", "cause", "--store-max 0")
		return nil
	}
	overlay, at, err := m.takeOverlay(c, dir, limit, log)
	switch {
	case err == nil:
		log.Info("keeping what is prepared", "dir", at)
		m.overlay, o.Overlay = overlay, overlay
		return nil
	case dir != "":
		return exit.With(exit.Mount, fmt.Errorf("--store %s: %w", dir, err))
	}
	log.Warn("nothing that is prepared can be kept", "cause", err)
	m.note(fmt.Sprintf("nothing that is prepared can be kept: %v", err))
	return nil
}

// takeOverlay opens an overlay in dir, or in the user's cache directory.
func (m *running) takeOverlay(c *mountConfig, dir string, limit *vfs.Bucket, log *slog.Logger) (*store.Overlay, string, error) {
	s, most, err := c.takeSlot(dir)
	if err != nil {
		return nil, "", err
	}
	overlay, err := store.OpenOverlay(s.Dir, store.OverlayOptions{
		FS: limited(nil, limit), Logger: log, MaxBytes: most, Room: s.Room, VerifyOnce: c.verify == "once",
	})
	if err != nil {
		s.Release()
		return nil, "", err
	}
	m.close = append(m.close, func() error { s.Release(); return nil }, overlay.Close)
	return overlay, s.Dir, nil
}

// takeSlot also says how much this mount may keep, in bytes; 0 leaves that to what all
// mounts may.
func (c *mountConfig) takeSlot(dir string) (*cachedir.Slot, int64, error) {
	most := max(c.storeMax, 0)
	if dir == "" {
		root, err := cacheRoot()
		if err != nil {
			return nil, 0, err
		}
		s, err := root.Take(c.source, c.dir, most)
		return s, most, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, 0, err
	}
	if most == 0 {
		most = defaultStoreMax(dir)
	}
	s, err := cachedir.TakeSlot(dir)
	return s, most, err
}

func (m *running) newFS(socket string, links []rootLink, log *slog.Logger) (*fs.FS, error) {
	c := m.config
	mode, err := fs.ParseCacheMode(c.cache)
	if err != nil {
		return nil, err
	}
	views := usualViews(m.registry)
	for _, spec := range c.listViews {
		if _, err := m.registry.Parse(spec); err != nil {
			return nil, fmt.Errorf("--list-view: %w", err)
		}
		views = append(views, spec)
	}
	m.listed = unique(views)
	wanted := m.listed
	for _, l := range links {
		wanted = append(wanted, l.to[0])
	}
	if m.gaps, err = findGaps(m.producer, m.registry, unique(wanted)); err != nil {
		return nil, exit.With(exit.Mount, err)
	}
	m.listed = slices.DeleteFunc(m.listed, m.gaps.lacks)
	return fs.New(fs.Options{
		Registry: m.registry, Producer: fs.FromProduce(m.producer), Roles: c.roles, Cache: mode,
		Views: m.listed, Refuse: m.gaps.refuse, Files: m.files(), Control: socket, Log: log,
		Freshness: m.fresh.kind, Watcher: m.fresh.watcher,
	})
}

func unique(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

func scans(k int) string { return fmt.Sprintf("scan%d", k) }

func (m *running) handlers() control.Handlers {
	return control.Handlers{Stats: m.stats, SetFidelity: m.SetFidelity, Current: m.Current}
}

// Unmount implements [mounted]. Unlike that of fs it does not wait for the end.
func (m *running) Unmount() error { return m.place.Unmount(false) }

// UnmountLazily implements [mounted].
func (m *running) UnmountLazily() error { return m.place.Unmount(true) }

// Done implements [mounted].
func (m *running) Done() <-chan struct{} { return m.mount.Done() }

// Close implements [mounted].
func (m *running) Close() error {
	var errs []error
	for i := len(m.close) - 1; i >= 0; i-- {
		errs = append(errs, m.close[i]())
	}
	m.close = nil
	return errors.Join(errs...)
}

// Abandon implements [mounted].
func (m *running) Abandon() { m.control.Close() }

// Current is the view that `current` leads to.
func (m *running) Current() string { return m.fs.Links()["current"] }

// SetFidelity moves `current`.
func (m *running) SetFidelity(k int) error {
	if k < 1 || k > maxFidelity {
		return fmt.Errorf("fidelity %d is not from 1 to %d", k, maxFidelity)
	}
	view, err := m.gaps.first(fidelityViews(k)...)
	if err != nil {
		return err
	}
	return m.fs.SetCurrent(withOwnNames(m.registry, view))
}

// fidelityViews are the views that `current` may lead to: the files at this fidelity, or
// their pixels.
func fidelityViews(k int) []string {
	views := []string{scans(k)}
	for _, pixels := range pixelViews {
		if k < maxFidelity {
			pixels = scans(k) + "-" + pixels
		}
		views = append(views, pixels)
	}
	return views
}

// pixelViews show all pixels, and are made of whatever a store has. The last two hold
// pictures of every mode.
var pixelViews = []string{"bmp", "png", "npy"}
