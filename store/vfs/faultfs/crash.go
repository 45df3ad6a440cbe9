package faultfs

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/store/vfs"
)

// CrashFS works on a directory of the operating system and remembers what of it
// would survive a power failure: the content of files as of their last Sync,
// under the names that their directories had at their last SyncDir.
type CrashFS struct {
	vfs.FS
	root string

	mu   sync.Mutex
	live map[string]*node
}

// node is a file or a directory, whatever its name.
type node struct {
	dir     bool
	content []byte           // of a file, as of its last Sync
	entries map[string]*node // of a directory, as of its last SyncDir
}

// NewCrashFS returns a file system for what is below root. What is there
// already counts as durable.
func NewCrashFS(root string) (*CrashFS, error) {
	c := &CrashFS{FS: vfs.OS, root: filepath.Clean(root), live: map[string]*node{}}
	return c, c.makeDurable(c.root)
}

// makeDurable makes everything below dir durable.
func (c *CrashFS) makeDurable(dir string) error {
	if err := c.SyncDir(dir); err != nil {
		return err
	}
	for name, n := range c.at(dir).entries {
		path := filepath.Join(dir, name)
		if n.dir {
			if err := c.makeDurable(path); err != nil {
				return err
			}
			continue
		}
		var err error
		if n.content, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	return nil
}

// at is the node that a path names now.
func (c *CrashFS) at(path string) *node {
	path = filepath.Clean(path)
	n := c.live[path]
	if n == nil {
		st, err := os.Stat(path)
		n = &node{dir: err == nil && st.IsDir()}
		c.live[path] = n
	}
	return n
}

// move makes what was below oldname live below newname; "" forgets it.
func (c *CrashFS) move(oldname, newname string) {
	oldname = filepath.Clean(oldname)
	for path, n := range maps.Clone(c.live) {
		rest, ok := strings.CutPrefix(path, oldname)
		if ok && (rest == "" || rest[0] == filepath.Separator) {
			delete(c.live, path)
			if newname != "" {
				c.live[filepath.Clean(newname)+rest] = n
			}
		}
	}
}

// SyncDir implements vfs.FS, as do the methods below.
func (c *CrashFS) SyncDir(dir string) error {
	names, err := vfs.OS.List(dir)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.at(dir)
	d.entries = map[string]*node{}
	for _, name := range names {
		d.entries[name] = c.at(filepath.Join(dir, name))
	}
	return nil
}

// Create implements [vfs.FS].
func (c *CrashFS) Create(name string) (vfs.File, error) {
	f, err := vfs.OS.Create(name)
	return c.track(name, f, err)
}

// OpenWrite implements [vfs.FS].
func (c *CrashFS) OpenWrite(name string) (vfs.File, error) {
	f, err := vfs.OS.OpenWrite(name)
	return c.track(name, f, err)
}

func (c *CrashFS) track(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return &crashFile{f, c, c.at(name)}, nil
}

// Rename implements [vfs.FS].
func (c *CrashFS) Rename(oldname, newname string) error {
	if err := vfs.OS.Rename(oldname, newname); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(newname, "")
	c.move(oldname, newname)
	return nil
}

// Remove implements [vfs.FS].
func (c *CrashFS) Remove(name string) error {
	if err := vfs.OS.Remove(name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(name, "")
	return nil
}

// RemoveAll implements [vfs.FS].
func (c *CrashFS) RemoveAll(name string) error {
	if err := vfs.OS.RemoveAll(name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(name, "")
	return nil
}

// Clone writes what would survive a power failure at this moment into dst.
func (c *CrashFS) Clone(dst string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(c.root).clone(dst)
}

func (n *node) clone(dst string) error {
	if !n.dir {
		return os.WriteFile(dst, n.content, 0o644)
	}
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	for name, child := range n.entries {
		if err := child.clone(filepath.Join(dst, name)); err != nil {
			return err
		}
	}
	return nil
}

type crashFile struct {
	vfs.File
	fs   *CrashFS
	node *node
}

func (f *crashFile) Sync() error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.content = b
	return nil
}
