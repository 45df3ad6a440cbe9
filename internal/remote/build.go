package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

// Build is a place while a store there is written: an [FS] whose new files lie in a directory
// of this machine until they are finished. A store finishes a file by renaming it. Then it is
// put, and removed here.
//
// Packs and indexes are put while the next file is written, and only if there is nothing of
// their name. A file at the top of the store, such as CURRENT, says which of them belong to the
// store. It is put when all others have been, and only if it is as it was when the Build
// began: two that write at once cannot both succeed, and what the second one has put is not
// seen.
type Build struct {
	*FS
	local string
	slots chan struct{} // one for each file that is being put
	puts  sync.WaitGroup

	bmu  sync.Mutex
	err  error // the first one of putting
	sent Sent
}

// Sent counts what a Build has put.
type Sent struct {
	Files int64
	Bytes int64
}

// ErrOtherWriter says that somebody else wrote to the place meanwhile.
var ErrOtherWriter error = otherWriter{}

type otherWriter struct{}

func (otherWriter) Error() string { return "another pipefs has written to it meanwhile" }

// Unwrap makes it one of the class [vfs.ErrConflict].
func (otherWriter) Unwrap() error { return vfs.ErrConflict }

// together is how many files are put at once. So many packs, and the one that is being written,
// are on the local disk.
const together = 3

// Build begins to write at the place. Unfinished files are kept below dir, where an earlier
// Build of the same place may have left some. f is not to be used otherwise from then on.
func (f *FS) Build(dir string) (*Build, error) {
	b := &Build{FS: f, local: filepath.Join(dir, digest(f.root)), slots: make(chan struct{}, together)}
	if err := os.MkdirAll(b.local, 0o700); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fixed = true
	return b, f.fail("list", "", f.list())
}

// Finish waits until all files are put.
func (b *Build) Finish() (Sent, error) {
	b.puts.Wait()
	b.bmu.Lock()
	defer b.bmu.Unlock()
	return b.sent, b.err
}

// here is the path of a file on this machine.
func (b *Build) here(file string) string {
	return filepath.Join(b.local, filepath.FromSlash(b.name(file)))
}

// isHere reports whether a file is on this machine, and so not put yet.
func (b *Build) isHere(file string) bool {
	_, err := os.Lstat(b.here(file))
	return err == nil
}

// Open implements [vfs.FS].
func (b *Build) Open(file string) (vfs.File, error) {
	opened, err := vfs.OS.Open(b.here(file))
	if errors.Is(err, fs.ErrNotExist) { // or it was put since
		return b.FS.Open(file)
	}
	return opened, err
}

// Create implements [vfs.FS].
func (b *Build) Create(file string) (vfs.File, error) {
	if err := os.MkdirAll(filepath.Dir(b.here(file)), 0o700); err != nil {
		return nil, err
	}
	return vfs.OS.Create(b.here(file))
}

// OpenWrite implements [vfs.FS]: what was put is not written to.
func (b *Build) OpenWrite(file string) (vfs.File, error) { return vfs.OS.OpenWrite(b.here(file)) }

// Size implements [vfs.FS].
func (b *Build) Size(file string) (int64, error) {
	size, err := vfs.OS.Size(b.here(file))
	if errors.Is(err, fs.ErrNotExist) {
		return b.FS.Size(file)
	}
	return size, err
}

// List implements [vfs.FS].
func (b *Build) List(dir string) ([]string, error) {
	here, err := vfs.OS.List(b.here(dir))
	there, errThere := b.FS.List(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case errThere != nil && (err != nil || !errors.Is(errThere, fs.ErrNotExist)):
		return nil, errThere
	}
	all := slices.Concat(here, there)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// MkdirAll implements [vfs.FS].
func (b *Build) MkdirAll(dir string) error { return os.MkdirAll(b.here(dir), 0o700) }

// SyncDir implements [vfs.FS].
func (b *Build) SyncDir(dir string) error {
	if !b.isHere(dir) {
		return nil
	}
	return vfs.OS.SyncDir(b.here(dir))
}

// Lock implements [vfs.FS]: it keeps others on this machine out.
func (b *Build) Lock(file string) (io.Closer, error) {
	lock, err := vfs.OS.Lock(b.here(file))
	if err != nil {
		return nil, err
	}
	if name := b.name(file); moves(name) { // that of the store
		if err := b.takeOver(name); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
	return lock, nil
}

// Remove implements [vfs.FS].
func (b *Build) Remove(file string) error {
	err := vfs.OS.Remove(b.here(file))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := b.info(b.name(file)); err != nil {
		return b.fail("remove", b.name(file), err)
	}
	return b.delete(b.name(file))
}

// RemoveAll implements [vfs.FS].
func (b *Build) RemoveAll(dir string) error {
	errs := []error{os.RemoveAll(b.here(dir))}
	for _, name := range b.below(b.name(dir)) {
		errs = append(errs, b.delete(name))
	}
	return errors.Join(errs...)
}

// below are the objects in a directory.
func (b *Build) below(dir string) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.listed {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			names = append(names, name)
		}
	}
	return names
}

func (b *Build) delete(name string) error {
	if err := b.objects.Delete(b.ctx, name); err != nil {
		return b.fail("remove", name, err)
	}
	b.mu.Lock()
	delete(b.listed, name)
	b.mu.Unlock()
	return nil
}

// Rename implements [vfs.FS]: it finishes a file, or all files of a directory.
func (b *Build) Rename(from, to string) error {
	if err := vfs.OS.Rename(b.here(from), b.here(to)); err != nil {
		return err
	}
	name := b.name(to)
	if unfinished(name) {
		return nil // what it lies in will be renamed
	}
	if info, err := os.Lstat(b.here(to)); err == nil && !info.IsDir() && moves(name) {
		return b.move(name)
	}
	return b.putBelow(name)
}

// putBelow puts a file, or all files of a directory.
func (b *Build) putBelow(name string) error {
	return filepath.WalkDir(filepath.Join(b.local, name), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(b.local, path)
		if err != nil {
			return err
		}
		return b.begin(filepath.ToSlash(rel))
	})
}

// begin puts a file while others are written. The error may be one of a file before.
func (b *Build) begin(name string) error {
	select {
	case b.slots <- struct{}{}:
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
	b.bmu.Lock()
	err := b.err
	b.bmu.Unlock()
	if err != nil {
		<-b.slots
		return err
	}
	b.puts.Go(func() {
		defer func() { <-b.slots }()
		if err := b.put(name); err != nil {
			b.bmu.Lock()
			if b.err == nil {
				b.err = err
			}
			b.bmu.Unlock()
		}
	})
	return nil
}

// put puts a file, and removes it here.
func (b *Build) put(name string) error {
	path := filepath.Join(b.local, name)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	version, err := b.objects.PutIfAbsent(b.ctx, name, file, info.Size())
	switch {
	case errors.Is(err, blob.ErrExists):
		if version, err = b.same(name, file, info.Size()); err != nil {
			return b.fail("put", name, err)
		}
	case err != nil:
		return b.fail("put", name, err)
	default:
		b.count(info.Size())
	}
	b.mu.Lock()
	b.listed[name] = blob.Info{Name: name, Size: info.Size(), Version: version, Modified: time.Now()}
	b.mu.Unlock()
	return os.Remove(path)
}

func (b *Build) count(bytes int64) {
	b.bmu.Lock()
	b.sent.Files++
	b.sent.Bytes += bytes
	b.bmu.Unlock()
}

// same compares a file with the object of its name: it may be what a process put that was
// killed then.
func (b *Build) same(name string, file io.ReaderAt, size int64) (blob.Version, error) {
	version, err := blob.Compare(b.ctx, b.objects, name, file, size)
	if errors.Is(err, blob.ErrDiffers) {
		err = ErrOtherWriter
	}
	return version, err
}

// move replaces a file at the top of the store, when all that it may name is put.
func (b *Build) move(name string) error {
	if _, err := b.Finish(); err != nil {
		return err
	}
	path := filepath.Join(b.local, name)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b.mu.Lock()
	seen := b.listed[name].Version
	b.mu.Unlock()
	version, err := b.objects.PutIfMatch(b.ctx, name, seen, data)
	if errors.Is(err, blob.ErrChanged) {
		err = fmt.Errorf("%w (%w)", ErrOtherWriter, err)
	}
	if err := errors.Join(err, os.Remove(path)); err != nil {
		return b.fail("put", name, err)
	}
	b.count(int64(len(data)))
	b.mu.Lock()
	b.listed[name] = blob.Info{Name: name, Size: int64(len(data)), Version: version, Modified: time.Now()}
	b.mu.Unlock()
	return nil
}

// unfinished reports whether a name is that of a file that is being written.
func unfinished(name string) bool {
	return strings.HasSuffix(name, ".part") || strings.Contains(name+"/", ".tmp/")
}

// takeOver puts what an earlier Build has finished and not put. What it had not finished is
// left to the store, unless another writer has finished it.
func (b *Build) takeOver(lock string) error {
	return filepath.WalkDir(b.local, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(b.local, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		_, errThere := b.info(strings.TrimSuffix(name, ".part"))
		there := errThere == nil
		switch {
		case name == lock:
			return nil
		case moves(name), there && !isPack(name): // what moves is made again
			return os.Remove(path)
		case there: // put, or not the same
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			defer file.Close()
			info, err := file.Stat()
			if err == nil {
				if _, err = b.same(name, file, info.Size()); err == nil || errors.Is(err, ErrOtherWriter) {
					return os.Remove(path)
				}
			}
			return b.fail("read", name, err)
		case unfinished(name):
			return nil
		case isPack(name):
			return b.begin(name)
		}
		return os.Remove(path) // of an index, which is made again
	})
}
