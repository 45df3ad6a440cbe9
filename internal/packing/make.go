package packing

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math/bits"
	"os"
	"path/filepath"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

// Making says what a plan is made of.
type Making struct {
	Place blob.Objects // of the store
	Tree  Tree
	Base  *store.Store // that is open; nil where nothing is packed yet
	// Current reports whether packing would make of an unchanged file what is stored of it.
	Current func(*store.Sample) bool
	// Verbatim reports whether a file is stored as it is.
	Verbatim func(path string, size int64) bool

	Dataset         string // path or URL
	Options         Options
	Steps, Decoders map[string]string // implementations

	// Shards is how many shards of about equal bytes are made, or 0: then each has ShardBytes of the dataset.
	Shards     int
	ShardBytes int64

	Temp string // directory for temporary files
	// Warn is called for what cannot be listed.
	Warn func(path string, err error)
	// Progress is called with the number of entries that are to be packed, now and then; may be nil.
	Progress func(entries int64)
}

// ErrNothing says that the store has all that the dataset has.
var ErrNothing = errors.New("there is nothing to pack")

// entryCost is what an entry counts in a shard beside the bytes of its file: empty files take time and
// memory, too.
const entryCost = 4 << 10

// Make makes a plan and puts it, unless the same one is there. Its memory is that of the largest directory
// of the dataset, of the directories that are not listed yet, and of a table of shards. Temporary files take
// about twice the bytes of the plan. The error is of the class ErrNothing where there would be no entries.
func (m *Making) Make(ctx context.Context) (*Plan, error) {
	if err := (&store.PackOptions{RecordImages: m.Options.RecordImages, Order: m.Options.Order}).Check(); err != nil {
		return nil, err
	}
	entries, err := index.NewSorter(m.Temp)
	if err != nil {
		return nil, err
	}
	defer entries.Close()
	h := Header{
		Magic: headerMagic, Version: planVersion,
		Dataset: m.Dataset, Options: m.Options, Steps: m.Steps, Decoders: m.Decoders,
	}
	var key, b []byte
	j := joiner{tree: m.Tree, base: m.Base, current: m.Current, warn: m.Warn, plan: func(e Entry) error {
		h.count(&e, m.Verbatim)
		if n := h.Entries(); m.Progress != nil && n%4096 == 0 {
			m.Progress(n)
		}
		if e.Kind == store.File && m.Options.Order == store.OrderShuffle { // behind all others
			rank := rankOf(m.Options.Seed, e.Path)
			key = append(append(key[:0], 1), rank[:]...)
		} else {
			key = binary.BigEndian.AppendUint64(append(key[:0], 0), uint64(h.Entries()))
		}
		b = appendEntry(b[:0], &e, "")
		return entries.Add(key, b)
	}}
	if err := j.run(ctx); err != nil {
		return nil, err
	}
	if h.Entries() == 0 {
		return nil, ErrNothing
	}
	h.FirstSeq, h.Age = j.seq, 1
	if m.Base != nil {
		shown := m.Base.Shown()
		if h.Base, h.Age = (Base{shown.Name, shown.Sum}), m.Base.NewestAge()+1; shown.Name == "" {
			return nil, fmt.Errorf("the list of the store's packs is missing or broken, and could not be put back: pack into it once with pipefs pack, which mends it")
		}
	}
	w, err := newPlanWriter(m, h)
	if err != nil {
		return nil, err
	}
	defer w.file.Close()
	err = entries.Each(func(_, b []byte) error {
		e, rest, err := cutEntry(b, "")
		if err == nil && len(rest) > 0 {
			err = errEntry
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return w.add(&e)
	})
	if err != nil {
		return nil, err
	}
	return w.finish(ctx, m.Place)
}

// rankOf is the place of a file in the shuffled order, as `pipefs pack` has it.
func rankOf(seed uint64, path string) [sha256.Size]byte {
	return sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), path...))
}

// count counts an entry.
func (t *Totals) count(e *Entry, verbatim func(string, int64) bool) {
	switch e.Kind {
	case store.Dir:
		t.Dirs++
	case store.Tombstone:
		t.Tombstones++
	default:
		n := e.Identity.Size
		t.Files++
		t.Bytes += n
		if verbatim(e.Path, n) {
			t.Verbatim = max(t.Verbatim, n)
		} else {
			t.Largest = max(t.Largest, n)
		}
	}
}

// weight is what an entry counts where shards are cut.
func (e *Entry) weight() uint64 {
	if e.Kind == store.File {
		return entryCost + uint64(e.Identity.Size)
	}
	return entryCost
}

// buildDir makes an empty directory, and removes those of workers that were killed.
func buildDir(parent string) (dir string, remove func(), err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, err
	}
	const begin = "shard-"
	old, err := filepath.Glob(filepath.Join(parent, begin+"*"))
	if err != nil {
		return "", nil, err
	}
	const name = "lock"
	for _, dir := range old {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			continue // it is just being made
		}
		if lock, err := vfs.OS.Lock(filepath.Join(dir, name)); err == nil {
			_ = os.RemoveAll(dir) // another process may do the same
			_ = lock.Close()
		}
	}
	for {
		if dir, err = os.MkdirTemp(parent, begin); err != nil {
			return "", nil, err
		}
		lock, err := vfs.OS.Lock(filepath.Join(dir, name))
		if err == nil {
			return dir, func() { _ = os.RemoveAll(dir); _ = lock.Close() }, nil
		}
		if !errors.Is(err, vfs.ErrLocked) { // else another one took it for one that was left
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
}

// passing is a file system for what is soon put elsewhere, and made again after a crash: nothing is synced.
type passing struct{ vfs.FS }

// Create implements [vfs.FS].
func (p passing) Create(name string) (vfs.File, error) {
	f, err := p.FS.Create(name)
	return passingFile{f}, err
}

// SyncDir implements [vfs.FS].
func (passing) SyncDir(string) error { return nil }

type passingFile struct{ vfs.File }

// Sync implements [vfs.File].
func (passingFile) Sync() error { return nil }

// planWriter writes a plan: the blocks of entries one after another, then the table of shards, the header
// and the trailer.
type planWriter struct {
	Header
	file   *os.File // has no name
	w      *bufio.Writer
	shards int    // that were asked for; 0: as many as bytes say
	bytes  uint64 // that a shard may have
	total  uint64 // weight of all entries
	weight uint64 // of all entries so far, or of those of the open shard

	off    int64
	first  int64
	rows   []Row
	open   Row
	sum    hash.Hash // of the open block
	before string    // path of the entry before, in this block
	buf    []byte
}

func newPlanWriter(m *Making, h Header) (*planWriter, error) {
	f, err := os.CreateTemp(m.Temp, "pipefs-plan-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &planWriter{
		Header: h, file: f, w: bufio.NewWriterSize(f, 1<<20),
		shards: m.Shards, bytes: uint64(max(m.ShardBytes, 1)), sum: sha256.New(),
		total: uint64(h.Entries())*entryCost + uint64(h.Bytes),
	}, nil
}

// add appends an entry to the shard that it belongs to.
func (w *planWriter) add(e *Entry) error {
	n := e.weight()
	if w.shards > 0 {
		// The one in whose share of all the middle of the entry lies
		hi, lo := bits.Mul64(w.weight+n/2, uint64(w.shards))
		at, _ := bits.Div64(hi, lo, w.total)
		for len(w.rows) < int(at) {
			if err := w.cut(); err != nil {
				return err
			}
		}
	} else if w.open.Entries > 0 && w.weight+n > w.bytes {
		if err := w.cut(); err != nil {
			return err
		}
		w.weight = 0
	}
	w.weight += n
	w.buf = appendEntry(w.buf[:0], e, w.before)
	w.before = e.Path
	w.open.Entries++
	w.open.Len += int64(len(w.buf))
	if e.Kind == store.File {
		w.open.Bytes += e.Identity.Size
	}
	if w.open.Len > maxBlock {
		return fmt.Errorf("the names of a shard take more than %d bytes: make more shards", int64(maxBlock))
	}
	_, _ = w.sum.Write(w.buf)
	_, err := w.w.Write(w.buf)
	return err
}

// cut ends the open shard.
func (w *planWriter) cut() error {
	if len(w.rows) == MaxShards {
		return fmt.Errorf("a plan has at most %d shards: make longer ones with --shard-bytes", MaxShards)
	}
	w.open.Off, w.open.First = w.off, w.first
	w.sum.Sum(w.open.Sum[:0])
	w.rows = append(w.rows, w.open)
	w.LongestBlock = max(w.LongestBlock, w.open.Len)
	w.off += w.open.Len
	w.first += w.open.Entries
	w.open, w.before = Row{}, ""
	w.sum.Reset()
	return nil
}

// finish writes what is behind the blocks, and puts the plan.
func (w *planWriter) finish(ctx context.Context, place blob.Objects) (*Plan, error) {
	for w.open.Entries > 0 || len(w.rows) < w.shards {
		if err := w.cut(); err != nil {
			return nil, err
		}
	}
	w.Rows, w.Shards = w.off, len(w.rows)
	for at := 0; at < len(w.rows); at += rowsTogether {
		var b []byte
		for i := range w.rows[at:min(at+rowsTogether, len(w.rows))] {
			b = appendRow(b, &w.rows[at+i])
		}
		w.RowSums = append(w.RowSums, fmt.Sprintf("%x", sha256.Sum256(b)))
		w.off += int64(len(b))
		if _, err := w.w.Write(b); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(&w.Header)
	if err != nil {
		return nil, err
	}
	p := &Plan{Header: w.Header, Digest: sha256.Sum256(text), place: place}
	copy(p.ID[:], p.Digest[:])
	end := appendTrailer(text, int64(len(text)), p.Digest)
	if _, err := w.w.Write(end); err != nil {
		return nil, err
	}
	if err := w.w.Flush(); err != nil {
		return nil, err
	}
	p.info.Name, p.info.Size = PlanName(p.ID), w.off+int64(len(end))
	if err := putAbsent(ctx, place, p.info.Name, w.file, p.info.Size); err != nil {
		return nil, err
	}
	p.info, err = place.Stat(ctx, p.info.Name)
	return p, err
}
