package index

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/ristretto/v2/z"
	"golang.org/x/sys/unix"
)

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
