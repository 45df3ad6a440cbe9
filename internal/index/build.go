package index

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Suffix is that of directories in which an index is built. What has it and is not being built
// was left by a crash.
const Suffix = ".building"

// Writer builds an index. A process of its own runs Badger: it gets the keys in order, by a pipe,
// and has little memory. Where it dies, or finds the disk full, the index is not built, and
// nothing else has happened.
type Writer struct {
	dir string
	seal
	ctx context.Context
	process

	key, value []byte // the last one, whose next is not known yet
	next, buf  []byte
	err        error
}

// Create begins an index of a directory that need not be there. size is about how many bytes its
// keys and values have; there has to be room for them. ctx ends the building.
func Create(ctx context.Context, dir, id string, size int64) (*Writer, error) {
	w := &Writer{dir: dir, ctx: ctx, seal: seal{Version: sealVersion, ID: id}}
	w.temp = dir + "-" + rand.Text()[:8] + Suffix
	_, _ = rand.Read(w.Build[:])
	if err := os.MkdirAll(w.temp, 0o777); err != nil {
		return nil, err
	}
	err := reserve(w.temp, size)
	if err == nil {
		err = w.start()
	}
	w.key = append(w.key, sentinel...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("build an index in %s: %w", filepath.Dir(dir), err), os.RemoveAll(w.temp))
	}
	return w, nil
}

// perKey and perIndex are about what a key, and an index, take beside their bytes.
const (
	perIndex = 4 << 20
	growth   = 1.25
)

// reserve makes sure that there is space: Badger would end the process.
func reserve(dir string, size int64) error {
	f, err := os.CreateTemp(dir, "room-")
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, int64(growth*float64(size))+perIndex)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = nil // then it is found out
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// Add adds a key, which comes after those before it in the order of their bytes.
func (w *Writer) Add(key, value []byte) error {
	if w.err == nil {
		w.err = w.add(key, value)
	}
	return w.err
}

func (w *Writer) add(key, value []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(value) > maxValue {
		return fmt.Errorf("the value of %.100q has %d bytes", key, len(value))
	}
	if w.Keys++; w.Keys%4096 == 0 && w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	w.next = append(append(w.next[:0], keysBegin), key...)
	if err := w.pass(w.next); err != nil {
		return err
	}
	w.key, w.next = w.next, w.key
	w.value = append(w.value[:0], value...)
	return nil
}

// pass passes on the key before another; nil is the end.
func (w *Writer) pass(next []byte) error {
	key, value := w.key, w.value
	for n := 0; ; n++ {
		e := entry{next: next, piece: value, more: 0}
		if len(value) > maxPiece {
			e.piece, e.next = value[:maxPiece], pieceKey(w.key, n+1)
			if n == 0 {
				e.more = uint64((len(value) - 1) / maxPiece)
			}
		}
		if len(e.next) > 0 && bytes.Compare(key, e.next) >= 0 {
			return fmt.Errorf("%q comes after %q", e.next[1:], key[1:])
		}
		w.buf = w.Build.append(w.buf[:0], key, e)
		if err := w.send(key, w.buf); err != nil {
			return w.died(err)
		}
		if value = value[len(e.piece):]; len(value) == 0 {
			return nil
		}
		key = e.next
	}
}

// Finish makes the index appear in its directory, in place of what was there, durably. meta is
// anything that JSON can hold.
func (w *Writer) Finish(meta any) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("build an index in %s: %w", filepath.Dir(w.dir), err), w.Abort())
		}
	}()
	if w.err != nil {
		return w.err
	}
	if err := w.pass(nil); err != nil {
		return err
	}
	if err := w.send(nil, nil); err != nil { // no key is empty
		return w.died(err)
	}
	if err := w.out.Flush(); err != nil {
		return w.died(err)
	}
	if err := w.wait(); err != nil {
		return err
	}
	if w.Meta, err = json.Marshal(meta); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	return w.take()
}

// finish describes what the child wrote, and makes it durable.
func (w *Writer) finish() error {
	names, err := files(w.temp)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(w.temp, name)
		if !strings.HasSuffix(name, ".sst") && name != "MANIFEST" && name != "KEYREGISTRY" {
			if err := os.Remove(path); err != nil { // logs, which are empty
				return err
			}
			continue
		}
		from := int64(0)
		if strings.HasSuffix(name, ".sst") {
			if from, err = lastBlock(path); err != nil {
				return err
			}
		}
		f, err := describe(w.temp, name, from)
		if err == nil {
			err = os.Chmod(path, 0o444) // whoever may read the directory; Badger makes some for itself alone
		}
		if err == nil {
			err = syncFile(path)
		}
		if err != nil {
			return err
		}
		w.Files = append(w.Files, f)
	}
	text, err := Seal(&w.seal)
	if err != nil {
		return err
	}
	name := filepath.Join(w.temp, sealName)
	if err = os.WriteFile(name, text, 0o444); err == nil {
		err = syncFile(name)
	}
	if err == nil {
		err = syncFile(w.temp)
	}
	return err
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// take gives the directory its name.
func (w *Writer) take() error {
	err := os.Rename(w.temp, w.dir)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		err = unix.Renameat2(unix.AT_FDCWD, w.temp, unix.AT_FDCWD, w.dir, unix.RENAME_EXCHANGE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			if err = os.RemoveAll(w.dir); err == nil {
				err = os.Rename(w.temp, w.dir)
			}
		}
		if err == nil {
			err = os.RemoveAll(w.temp)
		}
	}
	if err != nil {
		return err
	}
	return syncFile(filepath.Dir(w.dir))
}

// Abort ends the building: nothing is left of it. After Finish it does nothing.
func (w *Writer) Abort() error {
	w.err = errors.New("the index is not built any more")
	return w.end()
}
