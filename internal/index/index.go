package index

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"runtime/debug"
	"sync"
	"sync/atomic"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

var (
	// ErrCorrupt is the class of errors that building the index again mends.
	ErrCorrupt = errors.New("the index is damaged")
	// ErrClosed is what an index that was closed says.
	ErrClosed = errors.New("the index is closed")
	// ErrEnough ends a walk without an error.
	ErrEnough = errors.New("enough")
)

// Index is an index that is open. It is safe for concurrent use.
type Index struct {
	seal
	db  *badger.DB
	txn *badger.Txn

	// users counts those who ask Badger; closed is added to it once it is closed. Badger
	// unmaps its files when it is closed.
	users  atomic.Int64
	closes sync.Once
	idle   chan struct{} // gets a message when the last one of a closed index has left
}

func badgerOptions(dir string) badger.Options {
	o := badger.DefaultOptions(dir).WithLogger(nil).WithMetricsEnabled(false).WithDetectConflicts(false).
		WithCompression(options.None).WithBlockCacheSize(0).WithIndexCacheSize(0).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithBloomFalsePositive(0). // a filter could answer that a key is not there
		WithBaseTableSize(tableSize).WithMemTableSize(8 << 20).WithNumMemtables(1)
	o.BlockSize, o.TableSizeMultiplier = blockSize, 1
	return o
}

const (
	tableSize = 8 << 20 // bytes; each takes a descriptor of who reads
	blockSize = 4 << 10 // bytes; its checksum is verified at each lookup
)

// Open opens the index in a directory if it is the one with an id. Errors are of the class
// ErrCorrupt, also where it is another one, or of the operating system.
func Open(dir, id string) (*Index, error) {
	x := &Index{idle: make(chan struct{}, 1)}
	if err := x.read(dir); err != nil {
		return nil, err
	}
	if x.ID != id {
		return nil, fmt.Errorf("%s: %w: it is another one", dir, ErrCorrupt)
	}
	if err := x.compare(dir); err != nil {
		return nil, err
	}
	err := guard(func() (err error) {
		x.db, err = badger.Open(badgerOptions(dir).WithReadOnly(true).WithBypassLockGuard(true))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, corrupt(err))
	}
	x.txn = x.db.NewTransaction(false)
	return x, nil
}

// Len is the number of keys.
func (x *Index) Len() int64 { return x.Keys }

// Size is how many bytes the files have.
func (x *Index) Size() (bytes int64) {
	for _, f := range x.Files {
		bytes += f.Size
	}
	return bytes
}

// Describe reads into v what [Writer.Finish] was given.
func (x *Index) Describe(v any) error { return json.Unmarshal(x.Meta, v) }

const closed = -1 << 40

// enter makes sure that the files stay mapped until leave is called.
func (x *Index) enter() error {
	if x.users.Add(1) <= 0 {
		x.leave()
		return ErrClosed
	}
	return nil
}

func (x *Index) leave() {
	if x.users.Add(-1) == closed {
		select {
		case x.idle <- struct{}{}:
		default:
		}
	}
}

// Close waits until nobody asks the index any more. What asks it from then on gets ErrClosed. Its
// error is nil: what was only read cannot be lost.
func (x *Index) Close() error {
	x.closes.Do(func() {
		if x.users.Add(closed) != closed {
			<-x.idle
		}
		_ = guard(func() error {
			x.txn.Discard()
			return x.db.Close() // where the directory was removed, it says so
		})
	})
	return nil
}

// guard turns faults in mapped files, and what Badger panics for, into errors. No code but
// Badger's and what copies out of its memory may run in it.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return f()
}

func corrupt(err error) error {
	if err == nil || errors.Is(err, ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// Get appends the value of a key to room; nil is that there is none, which is proven.
func (x *Index) Get(room, key []byte) ([]byte, error) {
	value, _, err := x.GetNext(room, key)
	return value, err
}

// GetNext is Get, and tells the key that comes next; nil where that is not known, or not there.
func (x *Index) GetNext(room, key []byte) (value, next []byte, err error) {
	if checkKey(key) != nil {
		return nil, nil, nil
	}
	if err := x.enter(); err != nil {
		return nil, nil, err
	}
	defer x.leave()
	if room == nil {
		room = make([]byte, 0, 512) // what is there and empty is not nil
	}
	k := append(make([]byte, 0, 256), keysBegin)
	k = append(k, key...)
	more := uint64(0)
	err = guard(func() error {
		item, err := x.txn.Get(k)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return x.absent(k)
		}
		if err != nil {
			return err
		}
		return item.Value(func(b []byte) error {
			e, err := x.Build.parse(make([]byte, 0, 128), k, b)
			if err == nil {
				value, more = append(room, e.piece...), e.more
			}
			if err == nil && more == 0 && len(e.next) > 0 {
				next = e.next[1:]
			}
			return err
		})
	})
	if err != nil {
		return nil, nil, corrupt(err)
	}
	if more > 0 {
		value = nil
		err = x.walk(key, func(_, v []byte) error {
			value = append(room, v...)
			return ErrEnough
		})
	}
	return value, next, err
}

// absent proves that there is no key.
func (x *Index) absent(key []byte) error {
	it := x.iterator(true)
	defer it.Close()
	var e entry
	var below []byte
	it.Seek(key)
	if err := x.at(it, &e, &below); err != nil {
		return err
	}
	if bytes.Compare(below, key) >= 0 || len(e.next) > 0 && bytes.Compare(e.next, key) <= 0 {
		return errors.New("an entry is lost")
	}
	return nil
}

// at reads the entry that an iterator is at; its parts are in Badger's memory, but next.
func (x *Index) at(it *badger.Iterator, e *entry, key *[]byte) error {
	if !it.Valid() {
		return errors.New("an entry is lost")
	}
	item := it.Item()
	*key = append((*key)[:0], item.Key()...)
	return item.Value(func(b []byte) (err error) {
		*e, err = x.Build.parse(e.next[:0], *key, b)
		return err
	})
}

func (x *Index) iterator(back bool) *badger.Iterator {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues = false // it would run where no guard is
	o.Reverse = back
	return x.txn.NewIterator(o)
}

// Walk calls f with each key from one on, in the order of their bytes, and its value. f must not
// keep them. Its error ends the walk, and is returned; ErrEnough is none.
func (x *Index) Walk(from []byte, f func(key, value []byte) error) error {
	if err := x.enter(); err != nil {
		return err
	}
	defer x.leave()
	return x.walk(from, f)
}

// From yields the keys from one on, and their values. They must not be kept. An error is the last.
func (x *Index) From(from []byte) iter.Seq2[[2][]byte, error] {
	return func(yield func(kv [2][]byte, err error) bool) {
		err := x.Walk(from, func(key, value []byte) error {
			if !yield([2][]byte{key, value}, nil) {
				return ErrEnough
			}
			return nil
		})
		if err != nil {
			yield([2][]byte{}, err)
		}
	}
}

func (x *Index) walk(from []byte, f func(key, value []byte) error) error {
	w := walk{x: x}
	defer w.close()
	if err := guard(func() error { return w.begin(append([]byte{keysBegin}, from...)) }); err != nil {
		return corrupt(err)
	}
	for {
		ok, err := w.next()
		if err != nil {
			return corrupt(err)
		}
		if !ok {
			return nil
		}
		if err := f(w.key[1:], w.value); err != nil {
			if errors.Is(err, ErrEnough) {
				err = nil
			}
			return err
		}
	}
}

// walk goes from entry to entry.
type walk struct {
	x         *Index
	it        *badger.Iterator
	want      []byte // the key that comes next; empty at the end
	key, here []byte
	value     []byte
	e         entry
}

func (w *walk) close() {
	_ = guard(func() error {
		if w.it != nil {
			w.it.Close()
		}
		return nil
	})
}

// begin finds the first key that is not below one: the entry below names it.
func (w *walk) begin(from []byte) error {
	below := w.x.iterator(true)
	defer below.Close()
	below.Seek(from)
	err := w.x.at(below, &w.e, &w.here)
	if err != nil {
		return err
	}
	switch w.want = append(w.want, w.e.next...); {
	case bytes.Equal(w.here, from):
		w.want = append(w.want[:0], from...)
	case bytes.Compare(w.here, from) > 0 || len(w.want) > 0 && bytes.Compare(w.want, from) < 0:
		return errors.New("an entry is lost")
	}
	w.it = w.x.iterator(false)
	w.it.Seek(from)
	return nil
}

// next goes to the next key, and reports whether there is one.
func (w *walk) next() (ok bool, err error) {
	err = guard(func() error {
		if len(w.want) == 0 {
			if w.it.Valid() {
				return errors.New("there are entries behind the last one")
			}
			return nil
		}
		w.value = w.value[:0]
		for more := uint64(1); more > 0; more-- {
			if err := w.x.at(w.it, &w.e, &w.here); err != nil {
				return err
			}
			if !bytes.Equal(w.here, w.want) {
				return errors.New("an entry is lost")
			}
			if !ok {
				ok, more = true, w.e.more+1
				w.key = append(w.key[:0], w.here...)
			}
			w.value = append(w.value, w.e.piece...)
			w.want = append(w.want[:0], w.e.next...)
			w.it.Next()
		}
		return nil
	})
	return ok, err
}

// Keys in Badger: the sentinel, which is before all others and makes sure that there is one
// before each key; then keysBegin and the key. A value that is longer than maxPiece goes on in
// pieces, whose keys are that of the first piece, two zero bytes, and their number.
var (
	sentinel  = []byte{0}
	keysBegin = byte(1)
	pieceMark = []byte{0, 0}
)

const (
	// maxPiece is below the size from which on Badger writes values apart, in bytes.
	maxPiece = 512 << 10
	maxValue = 64 << 20
	maxKey   = 16 << 10
)

// An entry in Badger is the CRC32C of all the rest, of its key, and of the build; how many
// pieces follow; the next key, of which the bytes that it begins with like this one are left
// out; and the piece of the value.
type entry struct {
	more  uint64 // pieces that follow
	next  []byte // empty at the end
	piece []byte
}

// buildID tells the tables of two builds apart.
type buildID [16]byte

func (id *buildID) sum(key, rest []byte) uint32 {
	c := crc32.Update(0, castagnoli, id[:])
	return crc32.Update(crc32.Update(c, castagnoli, key), castagnoli, rest)
}

func (id *buildID) append(b, key []byte, e entry) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.AppendUvarint(b, e.more)
	shared := 0
	for shared < min(len(key), len(e.next)) && key[shared] == e.next[shared] {
		shared++
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(e.next)-shared))
	b = append(b, e.next[shared:]...)
	b = append(b, e.piece...)
	binary.LittleEndian.PutUint32(b[at:], id.sum(key, b[at+4:]))
	return b
}

var errEntry = errors.New("an entry is damaged")

// parse reads an entry. next is appended to buf.
func (id *buildID) parse(buf, key, b []byte) (e entry, err error) {
	if len(b) < 4 || id.sum(key, b[4:]) != binary.LittleEndian.Uint32(b) {
		return e, errEntry
	}
	b = b[4:]
	take := func() uint64 {
		n, k := binary.Uvarint(b)
		if k <= 0 {
			err = errEntry
			return 0
		}
		b = b[k:]
		return n
	}
	e.more = take()
	shared, rest := take(), take()
	if err != nil || shared > uint64(len(key)) || rest > uint64(len(b)) || e.more > maxValue/maxPiece {
		return e, errEntry
	}
	e.next = append(append(buf, key[:shared]...), b[:rest]...)
	e.piece = b[rest:]
	return e, nil
}

// pieceKey is the key of a further piece, from 1 on.
func pieceKey(key []byte, n int) []byte {
	b := append(bytes.Clone(key), pieceMark...)
	return binary.BigEndian.AppendUint16(b, uint16(n))
}

// checkKey refuses keys that could be taken for others.
func checkKey(key []byte) error {
	if len(key) > maxKey || bytes.Contains(key, pieceMark) {
		return fmt.Errorf("the key %.100q cannot be indexed", key)
	}
	return nil
}
