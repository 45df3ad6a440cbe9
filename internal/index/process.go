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

func (p *process) start() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	// the very program that runs, even where its file was replaced
	p.child = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{childName, p.temp},
		Env: append(os.Environ(), "GOTRACEBACK=none"), Stdin: read, Stderr: &p.said,
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

// childName is the name by which this program runs Badger: whatever program has this package
// in it does.
const childName = "pipefs-index"

func init() {
	if len(os.Args) != 2 || os.Args[0] != childName {
		return
	}
	if err := child(os.Args[1]); err != nil {
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
func child(dir string) error {
	debug.SetMemoryLimit(softMemory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: hardMemory, Max: hardMemory}); err != nil {
		return err
	}
	in := bufio.NewReaderSize(os.Stdin, 256<<10)
	db, err := badger.Open(badgerOptions(dir).WithValueLogFileSize(1 << 20).WithNumCompactors(0))
	if err != nil {
		return err
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

func cut(err error) error { return fmt.Errorf("who gives the keys ended: %w", err) }
