package index

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/ristretto/v2/z"
	"golang.org/x/sys/unix"
)

// childName is the name by which this program builds an index: whatever program has this package
// in it does.
const childName = "pipefs-build-index"

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
	softMemory = 96 << 20  // bytes, that the collector of garbage aims at
	hardMemory = 768 << 20 // bytes of data, at which the process ends
	writeBytes = 2 << 20   // that are handed to Badger at once
)

// child builds an index of what comes by the standard input.
func child(dir string) error {
	debug.SetMemoryLimit(softMemory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: hardMemory, Max: hardMemory}); err != nil {
		return err
	}
	db, err := badger.Open(badgerOptions(dir).WithNumCompactors(0).WithValueLogFileSize(1 << 20))
	if err != nil {
		return err
	}
	if err := write(db, bufio.NewReaderSize(os.Stdin, 256<<10)); err != nil {
		return err
	}
	return db.Close()
}

// write writes all keys, which come in order, until an empty one.
func write(db *badger.DB, in *bufio.Reader) error {
	w := db.NewStreamWriter()
	if err := w.Prepare(); err != nil {
		return err
	}
	buf := z.NewBuffer(2*writeBytes, "index")
	kv := &pb.KV{Version: 1}
	for {
		n, err := binary.ReadUvarint(in)
		if err != nil {
			return cut(err)
		}
		m, err := binary.ReadUvarint(in)
		if err != nil {
			return cut(err)
		}
		if kv.Key, err = read(in, kv.Key, n); err == nil {
			kv.Value, err = read(in, kv.Value, m)
		}
		if err != nil {
			return cut(err)
		}
		if n > 0 {
			badger.KVToBuffer(kv, buf)
		}
		if buf.LenNoPadding() > writeBytes || n == 0 {
			if err := w.Write(buf); err != nil {
				return err
			}
			buf.Reset()
		}
		if n == 0 {
			return w.Flush()
		}
	}
}

func read(in io.Reader, room []byte, n uint64) ([]byte, error) {
	if n > maxKey+maxPiece {
		return nil, errors.New("too long")
	}
	room = slices.Grow(room[:0], int(n))[:n]
	_, err := io.ReadFull(in, room)
	return room, err
}

func cut(err error) error { return fmt.Errorf("who gives the keys ended: %w", err) }
