package index

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/sealed"
)

// Suffix is that of directories in which an index is built. What has it and is not being built
// was left by a crash.
const Suffix = ".building"

// Writer builds an index. A process of its own runs Badger: it gets the keys in order, by a pipe,
// and has little memory. Where it dies, or finds the disk full, the index is not built, and
// nothing else has happened.
type Writer struct {
	dir, temp string
	seal
	ctx   context.Context
	child *exec.Cmd
	pipe  *os.File
	out   *bufio.Writer
	said  bytes.Buffer // by the child, on its standard error

	key, value []byte // the last one, whose next is not known yet
	next, buf  []byte
	err        error
}

// Create begins an index of a directory that need not be there. size is about how many bytes its
// keys and values have; there has to be room for them. ctx ends the building.
func Create(ctx context.Context, dir, id string, size int64) (*Writer, error) {
	w := &Writer{dir: dir, temp: dir + "-" + rand.Text()[:8] + Suffix, ctx: ctx, seal: seal{Version: sealVersion, ID: id}}
	_, _ = rand.Read(w.Build[:])
	if err := os.MkdirAll(w.temp, 0o755); err != nil {
		return nil, err
	}
	err := reserve(w.temp, size)
	if err == nil {
		err = w.start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("build an index in %s: %w", filepath.Dir(dir), err), Remove(w.temp))
	}
	return w, nil
}

// perKey and perIndex are about what a key, and an index, take beside their bytes.
const (
	perIndex = 4 << 20
	growth   = 1.25
)

// reserve makes sure that there is room: Badger would end the process.
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

func (w *Writer) start() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	// the very program that runs, even where its file was replaced
	w.child = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{childName, w.temp},
		Env: append(os.Environ(), "GOTRACEBACK=none"), Stdin: read, Stderr: &w.said,
	}
	if err := w.child.Start(); err != nil {
		return errors.Join(err, write.Close())
	}
	w.pipe, w.out = write, bufio.NewWriterSize(write, 256<<10)
	w.key = append(w.key, sentinel...)
	return nil
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
	if err := w.end(w.next); err != nil {
		return err
	}
	w.key, w.next = w.next, w.key
	w.value = append(w.value[:0], value...)
	return nil
}

// end passes on the key before another; nil is the end.
func (w *Writer) end(next []byte) error {
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

func (w *Writer) send(key, value []byte) error {
	var head [2 * binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(len(key)))
	n += binary.PutUvarint(head[n:], uint64(len(value)))
	_, err := w.out.Write(head[:n])
	if err == nil {
		_, err = w.out.Write(key)
	}
	if err == nil {
		_, err = w.out.Write(value)
	}
	return err
}

// died is why the child ended before its time.
func (w *Writer) died(err error) error {
	if !errors.Is(err, unix.EPIPE) {
		return err
	}
	if ended := w.wait(); ended != nil {
		err = ended
	}
	return err
}

// wait waits for the child, and says why it failed.
func (w *Writer) wait() error {
	_ = w.pipe.Close() // what it has not written, it says itself
	err := w.child.Wait()
	w.child = nil
	if err == nil {
		return nil
	}
	said, _, _ := strings.Cut(strings.TrimSpace(w.said.String()), "\n\n")
	var at unix.Statfs_t
	full := unix.Statfs(w.temp, &at) == nil && int64(at.Bavail)*at.Bsize < 2*tableSize
	switch {
	case strings.Contains(said, unix.ENOSPC.Error()) || strings.Contains(said, "SIGBUS") && full:
		return fmt.Errorf("%w; the index needs about %d MB", unix.ENOSPC, w.estimate()>>20)
	case strings.Contains(said, unix.EDQUOT.Error()):
		return unix.EDQUOT
	}
	return fmt.Errorf("the process that builds it ended: %w: %.2000s", err, said)
}

func (w *Writer) estimate() int64 {
	var sum int64
	entries, _ := os.ReadDir(w.temp)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".sst") {
			sum += info.Size()
		}
	}
	return max(sum, 2*tableSize)
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
	if err := w.end(nil); err != nil {
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
		f, err := describe(w.temp, name)
		if err == nil {
			err = syncFile(path)
		}
		if err != nil {
			return err
		}
		w.Files = append(w.Files, f)
	}
	text, err := sealed.Encode(&w.seal)
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
	if err == nil {
		err = os.Chmod(w.temp, 0o555) // Badger removes nothing of it then
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
			if err = Remove(w.dir); err == nil {
				err = os.Rename(w.temp, w.dir)
			}
		}
		if err == nil {
			err = Remove(w.temp)
		}
	}
	if err != nil {
		return err
	}
	return syncFile(filepath.Dir(w.dir))
}

// Abort ends the building: nothing is left of it. After Finish it does nothing.
func (w *Writer) Abort() error {
	if w.child != nil {
		_ = w.child.Process.Kill() // it may have ended
		_ = w.wait()
	}
	w.err = errors.New("the index is not built any more")
	return Remove(w.temp)
}

// Remove removes an index. Who has it open can go on reading it.
func Remove(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}
