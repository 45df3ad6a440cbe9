package mountd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

// openSources opens dataset, store and overlay.
func (m *Mount) openSources(ctx context.Context, o *serve.Options) error {
	c := m.config
	// All that the mount reads draws on one limit; nil is as fast as can be.
	limit := vfs.NewBucket(c.Read.BytesPerSecond, c.Read.ReadsPerSecond)
	if limit != nil {
		m.log.Warn("reads are slowed down, for measurements", "bytes_per_second", c.Read.BytesPerSecond, "reads_per_second", c.Read.ReadsPerSecond)
	}
	mounted, err := m.openStore(ctx, c.Source, o, limit)
	if err != nil {
		return err
	}
	from := c.Source
	switch {
	case mounted:
		o.Source = serve.StoreTree(o.Store)
		from = c.Read.Dataset
	case c.Read.Dataset != "":
		return fmt.Errorf("%s is no store: it has no dataset beside it", c.Source)
	}
	var shown source.Dataset
	if from != "" {
		d, err := m.openDataset(ctx, from, limit)
		if err != nil {
			return err
		}
		m.close = append(m.close, d.Close)
		o.Dataset = d
		m.presence.directory, _ = d.(*source.Directory)
		if !mounted {
			o.Source, shown = d, d
		}
	}
	if mounted && o.Dataset == nil && !remote.Is(c.Source) {
		if o.Nearby = OpenNearby(o.Store, c.Source, source.Options{NoFollow: c.Read.NoFollow, Log: m.log, Limit: limit}); o.Nearby != nil {
			m.log.Info("originals are read from the dataset, where it still has them", "dataset", o.Nearby.Root())
			m.close = append(m.close, o.Nearby.Close)
		}
	}
	if m.fresh = freshnessOf(shown, c.Read); m.fresh.watcher != nil {
		m.close = append(m.close, m.fresh.watcher.Close)
	}
	keep := c.Read.Store
	if !mounted && keep != "" {
		attached, err := m.openStore(ctx, keep, o, limit)
		if err != nil {
			return err
		}
		if attached {
			keep = ""
			if was := o.Store.Stats().Dataset; was != c.Source {
				c.note(fmt.Sprintf("%s was packed from %s: samples that differ in %s are not read from it, but made", m.packed, was, c.Source))
			}
		}
	}
	return m.openOverlay(keep, o, limit)
}

// openDataset opens the dataset at a path.
func (m *Mount) openDataset(ctx context.Context, at string, limit *vfs.Bucket) (source.Dataset, error) {
	under := func(dir string) (source.Dataset, error) {
		if remote.Is(dir) || m.config.Read.Manifest != "" {
			return m.openBucket(ctx, dir, limit)
		}
		o := source.Options{NoFollow: m.config.Read.NoFollow, Log: m.log}
		if limit != nil {
			o.Limit = limit
		}
		return source.Open(dir, o)
	}
	d, err := m.openOver(ctx, at, under)
	if err != nil || m.config.Read.Classes == "" {
		return d, err
	}
	classes, err := source.WithClasses(d, m.config.Read.Classes)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for _, note := range classes.Notes {
		m.config.note(note)
	}
	return classes, nil
}

// openStore opens the store at a path or a URL, if there is one.
func (m *Mount) openStore(ctx context.Context, at string, o *serve.Options, limit *vfs.Bucket) (bool, error) {
	files, index := vfs.OS, ""
	var there *remote.FS
	switch {
	case remote.Is(at):
		var err error
		if there, err = m.openRemote(ctx, at); err != nil {
			return false, err
		}
		defer context.AfterFunc(ctx, func() { _ = there.Close() })() // it is only read
		files, index = there, m.config.Remote.Index(at)
	case m.config.Cache.Direct:
		files = vfs.Direct(vfs.OS)
	}
	options := store.Options{Logger: m.log, FS: vfs.Throttled(files, limit), IndexDir: index}
	// A daemon that takes the place of another goes on with what that one showed.
	options.Generation = m.config.resumed().Generation
	s, err := store.Open(at, options)
	if cause := err; cause != nil && options.Generation != (store.Generation{}) {
		options.Generation = store.Generation{}
		if s, err = store.Open(at, options); err == nil {
			m.log.Warn("the generation that the daemon before this one showed cannot be read; the current one takes its place", "store", at, "cause", cause)
		}
	}
	switch {
	case errors.Is(err, store.ErrNotStore), errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("store %s: %w", at, err)
	}
	m.close = append(m.close, s.Close)
	m.packed, m.store, m.storeFiles, o.Store = at, s, there, s
	return true, nil
}

// openRemote shows what is at a URL. The reads go on when ctx has ended.
func (m *Mount) openRemote(ctx context.Context, at string) (*remote.FS, error) {
	place, err := m.connect(ctx, at)
	if err != nil {
		return nil, err
	}
	files := m.config.Remote.Show(context.WithoutCancel(ctx), at, place, remote.Options{Cache: m.openBlocks(), Log: m.log})
	m.close = append(m.close, files.Close)
	return files, nil
}

// connect reaches the place at a URL.
func (m *Mount) connect(ctx context.Context, at string) (blob.Objects, error) {
	to := m.config.Remote
	to.Blob.Log, to.Blob.Until = m.log, m.until
	return to.Connect(ctx, at)
}

// openBlocks opens the block cache. A mount works without one: then what is read twice is
// fetched twice.
func (m *Mount) openBlocks() *blockcache.Cache {
	c := m.config
	if m.blocks != nil || c.Remote.Dir == "" || c.Remote.Bytes == 0 {
		return m.blocks
	}
	blocks, err := blockcache.Open(c.Remote.Dir, blockcache.Options{MaxBytes: max(c.Remote.Bytes, 0), MemoryBytes: m.memory.fetched, Mount: c.Dir, Log: m.log})
	if err != nil {
		m.log.Warn("what is read of the bucket cannot be kept", "cause", err)
		c.note(fmt.Sprintf("what is read of the bucket cannot be kept, and is fetched each time: %v (--disk-cache names another directory)", err))
		c.Remote.Bytes = 0
		return nil
	}
	m.blocks = blocks
	m.close = append(m.close, blocks.Close)
	return blocks
}

// openOverlay opens what keeps that which this mount prepares, in dir or in the user's
// cache directory. A mount works without the latter: then it keeps nothing.
func (m *Mount) openOverlay(dir string, o *serve.Options, limit *vfs.Bucket) error {
	c := m.config
	if c.Keep.MaxBytes == 0 {
		m.log.Info("nothing that is prepared is kept", "cause", "it is to take no space")
		return nil
	}
	slot, most, err := c.takeSlot(dir)
	if err == nil {
		o.Overlay, err = store.OpenOverlay(slot.Dir, store.OverlayOptions{
			FS: vfs.Throttled(vfs.OS, limit), Logger: m.log, MaxBytes: most, Reserve: slot.Reserve,
		})
		if err != nil {
			slot.Release()
		}
	}
	switch {
	case err == nil:
		m.log.Info("keeping what is prepared", "dir", slot.Dir)
		m.close = append(m.close, func() error { slot.Release(); return nil }, o.Overlay.Close)
		return nil
	case dir != "":
		return fmt.Errorf("keeping what is prepared in %s: %w", dir, err)
	}
	m.log.Warn("nothing that is prepared can be kept", "cause", err)
	c.note(fmt.Sprintf("nothing that is prepared can be kept: %v", err))
	return nil
}

// takeSlot also says how much this mount may keep, in bytes; 0 leaves that to what all
// mounts may.
func (c *Config) takeSlot(dir string) (*cachedir.Slot, int64, error) {
	most := max(c.Keep.MaxBytes, 0)
	if dir == "" {
		root, err := CacheRoot()
		if err != nil {
			return nil, 0, err
		}
		s, err := root.Take(c.Source, c.Dir, most)
		return s, most, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, 0, err
	}
	if most == 0 {
		most = defaultKept(dir)
	}
	s, err := cachedir.TakeSlot(dir)
	return s, most, err
}

// defaultKept is how much a mount keeps in a directory of its own where nobody said.
func defaultKept(dir string) int64 {
	const most = 50e9
	free, err := cachedir.Free(dir)
	if err != nil {
		return most / 10
	}
	return min(free/10, most)
}
