package index

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/ristretto/v2/z"
	"golang.org/x/sys/unix"
)

// process is a child that runs Badger in a directory, and gets keys and values by a pipe.
type process struct {
	temp  string
	child *exec.Cmd
	pipe  *os.File
	out   *bufio.Writer
	said  bytes.Buffer // by the child, on its standard error
}

func (p *process) start(mode string, out *os.File) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	// the very program that runs, even where its file was replaced
	p.child = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{childName, mode, p.temp},
		Env: append(os.Environ(), "GOTRACEBACK=none"), Stdin: read, Stderr: &p.said,
	}
	if out != nil {
		p.child.Stdout = out
	}
	if err := p.child.Start(); err != nil {
		p.child = nil
		return errors.Join(err, write.Close())
	}
	p.pipe, p.out = write, bufio.NewWriterSize(write, 256<<10)
	return nil
}

func (p *process) send(key, value []byte) error { return send(p.out, key, value) }

// send writes a key and a value. An empty key is the end.
func send(out *bufio.Writer, key, value []byte) error {
	var head [2 * binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(len(key)))
	n += binary.PutUvarint(head[n:], uint64(len(value)))
	_, err := out.Write(head[:n])
	if err == nil {
		_, err = out.Write(key)
	}
	if err == nil {
		_, err = out.Write(value)
	}
	return err
}

// receive reads what send wrote.
func receive(in *bufio.Reader, key, value []byte) (_, _ []byte, err error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, nil, err
	}
	m, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, nil, err
	}
	if n > 2*maxKey || m > maxKey+maxPiece+64 {
		return nil, nil, errors.New("too long")
	}
	if key, err = fill(in, key, int(n)); err == nil {
		value, err = fill(in, value, int(m))
	}
	return key, value, err
}

func fill(in io.Reader, room []byte, n int) ([]byte, error) {
	if cap(room) < n {
		room = make([]byte, n)
	}
	_, err := io.ReadFull(in, room[:n])
	return room[:n], err
}

// died is why the child ended before its time.
func (p *process) died(err error) error {
	if !errors.Is(err, unix.EPIPE) {
		return err
	}
	if ended := p.wait(); ended != nil {
		err = ended
	}
	return err
}

// wait waits for the child, and says why it failed.
func (p *process) wait() error {
	_ = p.pipe.Close() // what it has not got, it says itself
	err := p.child.Wait()
	p.child = nil
	if err == nil {
		return nil
	}
	said, _, _ := strings.Cut(strings.TrimSpace(p.said.String()), "\n\n")
	var at unix.Statfs_t
	full := unix.Statfs(p.temp, &at) == nil && int64(at.Bavail)*at.Bsize < 2*tableSize
	switch {
	case strings.Contains(said, unix.ENOSPC.Error()) || strings.Contains(said, "SIGBUS") && full:
		return fmt.Errorf("no room for an index: %w", unix.ENOSPC)
	case strings.Contains(said, unix.EDQUOT.Error()):
		return fmt.Errorf("no room for an index: %w", unix.EDQUOT)
	}
	return fmt.Errorf("the process that builds it ended: %w: %.2000s", err, said)
}

// end ends the child, and removes its directory.
func (p *process) end() error {
	if p.child != nil {
		_ = p.child.Process.Kill() // it may have ended
		_ = p.wait()
	}
	return os.RemoveAll(p.temp)
}

// Sorter sorts what is more than memory holds. Its child has Badger sort it.
type Sorter struct {
	process
	in  *os.File // what the child writes
	n   int64
	sum uint64 // of the checksums of all that was added
}

// NewSorter begins to sort in a directory for temporary files; "" is that of the system.
func NewSorter(dir string) (*Sorter, error) {
	s := &Sorter{}
	var err error
	if s.temp, err = os.MkdirTemp(dir, "pipefs-sort-"); err != nil {
		return nil, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, s.end())
	}
	s.in = in
	if err = errors.Join(s.start(sortMode, out), out.Close()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func recordSum(key, value []byte) uint64 {
	return uint64(castagnoliSum(key))<<32 | uint64(castagnoliSum(value))
}

// Add adds a key, each of which is another one, and its value.
func (s *Sorter) Add(key, value []byte) error {
	if len(key) == 0 || len(key) > maxKey || len(value) > maxPiece {
		return fmt.Errorf("%d and %d bytes cannot be sorted", len(key), len(value))
	}
	s.n++
	s.sum += recordSum(key, value)
	return s.died(s.send(key, value))
}

// Each calls f with all keys in the order of their bytes, and their values. f must not keep them. Nothing
// can be added from then on.
func (s *Sorter) Each(f func(key, value []byte) error) error {
	err := s.send(nil, nil)
	if err == nil {
		err = s.out.Flush()
	}
	if err != nil {
		return s.died(err)
	}
	r := bufio.NewReaderSize(s.in, 256<<10)
	var key, value, last []byte
	n, sum := int64(0), uint64(0)
	for {
		if key, value, err = receive(r, key, value); err != nil {
			if ended := s.wait(); ended != nil {
				err = ended
			}
			return fmt.Errorf("sort in %s: %w", filepath.Dir(s.temp), err)
		}
		if len(key) == 0 {
			break
		}
		if n > 0 && bytes.Compare(last, key) >= 0 {
			return errors.New("what was sorted is not in order")
		}
		last = append(last[:0], key...)
		n++
		sum += recordSum(key, value)
		if err := f(key, value); err != nil {
			return err
		}
	}
	if n != s.n || sum != s.sum {
		return fmt.Errorf("what was sorted is not what was given: %d of %d", n, s.n)
	}
	return s.wait()
}

// Close removes what was sorted.
func (s *Sorter) Close() error { return errors.Join(s.in.Close(), s.end()) }

// childName is the name by which this program runs Badger: whatever program has this package
// in it does.
const (
	childName = "pipefs-index"
	buildMode = "build"
	sortMode  = "sort"
)

func init() {
	if len(os.Args) != 3 || os.Args[0] != childName {
		return
	}
	if err := child(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const (
	softMemory = 96 << 20 // bytes, that the collector of garbage aims at
	hardMemory = 1 << 30  // bytes of data, with the stacks of threads, at which the process ends
	writeBytes = 2 << 20  // that are handed to Badger at once
)

// child takes what comes by the standard input.
func child(mode, dir string) error {
	debug.SetMemoryLimit(softMemory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: hardMemory, Max: hardMemory}); err != nil {
		return err
	}
	in := bufio.NewReaderSize(os.Stdin, 256<<10)
	o := badgerOptions(dir).WithValueLogFileSize(1 << 20)
	if mode == buildMode {
		o = o.WithNumCompactors(0)
	} else {
		o = o.WithNumCompactors(2).WithNumMemtables(2)
	}
	db, err := badger.Open(o)
	if err != nil {
		return err
	}
	if mode == sortMode {
		return sortAll(db, in) // the directory goes
	}
	if err := build(db, in); err != nil {
		return err
	}
	return db.Close()
}

// build writes all keys, which come in order.
func build(db *badger.DB, in *bufio.Reader) error {
	w := db.NewStreamWriter()
	if err := w.Prepare(); err != nil {
		return err
	}
	buf := z.NewBuffer(2*writeBytes, "index")
	kv := &pb.KV{Version: 1}
	for {
		var err error
		if kv.Key, kv.Value, err = receive(in, kv.Key, kv.Value); err != nil {
			return cut(err)
		}
		if len(kv.Key) > 0 {
			badger.KVToBuffer(kv, buf)
		}
		if buf.LenNoPadding() > writeBytes || len(kv.Key) == 0 {
			if err := w.Write(buf); err != nil {
				return err
			}
			buf.Reset()
		}
		if len(kv.Key) == 0 {
			return w.Flush()
		}
	}
}

// sortAll writes all keys to the standard output, in order.
func sortAll(db *badger.DB, in *bufio.Reader) error {
	w := db.NewWriteBatch()
	for {
		key, value, err := receive(in, nil, nil) // the batch keeps them
		if err != nil {
			return cut(err)
		}
		if len(key) == 0 {
			break
		}
		if err := w.Set(key, value); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	out := bufio.NewWriterSize(os.Stdout, 256<<10)
	err := db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if err := item.Value(func(value []byte) error { return send(out, item.Key(), value) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = send(out, nil, nil)
	}
	if err == nil {
		err = out.Flush()
	}
	return err
}

func cut(err error) error { return fmt.Errorf("who gives the keys ended: %w", err) }
