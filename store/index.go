package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// An index generation: a directory with a Badger database in db, and a SEAL
// that describes it.
const (
	currentName = "CURRENT"
	sealName    = "SEAL"
	dbName      = "db"
	indexPrefix = "index."
	tmpSuffix   = ".tmp"
	keepIndexes = 2
)

// currentFile names the generation to use, and the checksum of its SEAL.
type currentFile struct {
	Index string `json:"index"`
	Seal  string `json:"seal_crc32c"` // hexadecimal
}

// sealFile describes a generation completely: which packs it was made from, and
// which bytes it has. Badger trusts its files more than they deserve (it ends
// the process, or finds fewer keys), so they are checked before it sees them.
type sealFile struct {
	Version int         `json:"version"`
	Stats   Stats       `json:"stats"`
	Entries int64       `json:"entries"`
	Packs   []packSeal  `json:"packs"`
	Files   []indexFile `json:"files"`
}

type indexFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  uint32 `json:"crc32c"`
}

// indexKey sorts the entries of a directory together. "" is the root.
func indexKey(p string) []byte {
	dir, name := splitPath(p)
	return append(append(append(make([]byte, 0, len(p)+1), dir...), 0), name...)
}

func splitPath(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "", p
	}
	return p[:i], p[i+1:]
}

// A value in the index: a checksum of the rest, where the data of the entry's
// record lies, the entry as the pack has it.
const valueHead = 24

func appendValue(b []byte, at place, raw []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, at.pack)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.base))
	b = binary.LittleEndian.AppendUint64(b, uint64(at.size))
	b = append(b, raw...)
	binary.LittleEndian.PutUint32(b[start:], sum(b[start+4:]))
	return b
}

func parseValue(b []byte) (place, []byte, error) {
	if len(b) < valueHead {
		return place{}, nil, errShort
	}
	if sum(b[4:]) != binary.LittleEndian.Uint32(b) {
		return place{}, nil, errSum
	}
	at := place{
		pack: binary.LittleEndian.Uint32(b[4:]),
		base: int64(binary.LittleEndian.Uint64(b[8:])),
		size: int64(binary.LittleEndian.Uint64(b[16:])),
	}
	if at.base < 0 || at.base > maxLen || at.size < 0 || at.size > maxLen {
		return place{}, nil, fmt.Errorf("a record of %d bytes at %d", at.size, at.base)
	}
	return at, b[valueHead:], nil
}

// badgerOptions are what reading and writing have in common.
func badgerOptions(dir string, log *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithLogger(badgerLog{log}).
		WithMetricsEnabled(false).
		// with compression, a flipped byte makes Badger panic
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithDetectConflicts(false).
		WithMemTableSize(8 << 20).
		WithNumMemtables(1).
		WithValueLogFileSize(1 << 20).
		WithValueThreshold(1 << 20).
		WithVerifyValueChecksum(true).
		// The files were compared with the SEAL already.
		WithChecksumVerificationMode(options.NoVerification).
		// The store's own lock, and generations that never change, do this.
		WithBypassLockGuard(true)
}

// badgerLog passes on what may matter, and drops the rest.
type badgerLog struct{ log *slog.Logger }

func (l badgerLog) Errorf(format string, args ...any) {
	l.log.Warn("index: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}
func (l badgerLog) Warningf(format string, args ...any) {
	l.log.Debug("index: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}
func (l badgerLog) Infof(string, ...any)  {}
func (l badgerLog) Debugf(string, ...any) {}

// index is an open generation.
type index struct {
	db   *badger.DB
	seal sealFile
	name string
	log  *slog.Logger
	// txns are read transactions to be used again: beginning and ending one goes
	// through a goroutine of Badger's, which costs more than the search.
	txns chan *badger.Txn
}

// keptTxns is how many read transactions wait for the next lookup.
const keptTxns = 16

// view is badger.DB.View with a transaction that may have been used before. In a
// database that never changes they are all alike.
func (x *index) view(f func(*badger.Txn) error) error {
	var txn *badger.Txn
	select {
	case txn = <-x.txns:
	default:
		txn = x.db.NewTransaction(false)
	}
	err := f(txn)
	select {
	case x.txns <- txn:
	default:
		txn.Discard()
	}
	return err
}

// close lets go of the generation. Nothing was written, so nothing can be lost:
// Badger complains where the generation was replaced, and removed, meanwhile.
func (x *index) close() {
	for len(x.txns) > 0 {
		(<-x.txns).Discard()
	}
	if err := x.db.Close(); err != nil {
		x.log.Debug("close the index", "index", x.name, "error", err)
	}
}

// get returns the entry of a path, nil where there is none.
func (x *index) get(p string) (*Sample, error) {
	var s *Sample
	err := x.view(func(txn *badger.Txn) error {
		it, err := txn.Get(indexKey(p))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return it.Value(func(v []byte) error {
			at, raw, err := parseValue(v)
			if err != nil {
				return err
			}
			got, err := decodeEntry(raw, at)
			if err == nil && got.Path != p {
				err = fmt.Errorf("holds the entry of %q", got.Path)
			}
			s = &got
			return err
		})
	})
	if err != nil {
		return nil, &CorruptError{Path: path.Join(x.name, p), Cause: err}
	}
	return s, nil
}

// list returns what a directory holds, by name.
func (x *index) list(dir string) ([]Child, error) {
	var children []Child
	prefix := append([]byte(dir), 0)
	err := x.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix = prefix
		o.PrefetchValues = false // values lie beside their keys
		it := txn.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			name := string(it.Item().Key()[len(prefix):])
			if name == "" {
				continue // the dataset itself
			}
			err := it.Item().Value(func(v []byte) error {
				_, raw, err := parseValue(v)
				if err != nil {
					return err
				}
				d := decoder{b: raw}
				s := decodeHead(&d)
				if d.err == nil && s.Path != path.Join(dir, name) {
					d.fail("%q holds the entry of %q", name, s.Path)
				}
				children = append(children, Child{Name: name, Kind: s.Kind, Seq: s.Seq})
				return d.err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, &CorruptError{Path: path.Join(x.name, dir), Cause: err}
	}
	return children, nil
}
