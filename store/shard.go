package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/store/vfs"
)

// MaxAge is the highest age of a pack.
const MaxAge = maxAge

// CheckEntry says what is wrong with the path and the kind of an entry.
func CheckEntry(path string, k Kind) error {
	if k < File || k > Tombstone {
		return fmt.Errorf("%v: %w", k, errPath)
	}
	return checkPath(path, k)
}

// Shard is a part of a plan, to be packed by [PackShard].
type Shard struct {
	Plan   ID
	Digest [sha256.Size]byte // of the plan
	Number int
	Age    uint64 // of its packs
	// Entries yields what is to be packed, in order. An error ends the packing.
	Entries iter.Seq2[ShardEntry, error]
	Source  ShardSource
	Encoder Encoder
	// Put is called with each pack as soon as it is there, and with the files that it and its segment
	// are in. The files can be removed then.
	Put func(p SealedPack, pack, segment string) error
}

// ShardEntry is what is to be packed: a file, a directory, or a tombstone.
type ShardEntry struct {
	SourceFile
	Seq int64
}

// ShardSource gives the bytes of files that were planned. It is used concurrently. An error of the
// class ErrChanged says that the file is another version than planned, and one of fs.ErrNotExist that it
// is gone: then it is left out. Any other error ends the packing of the shard.
type ShardSource interface {
	Read(ctx context.Context, f SourceFile) ([]byte, error)
	Copy(ctx context.Context, f SourceFile, w io.Writer) error
}

// PackShard packs a shard into files below dir, an empty directory of this machine. What the packs
// hold follows from the shard and from these fields of the options: RecordImages, RecordBytes,
// PackBytes. Warn is called for each file that is left out; what it gets does not depend on the machine.
func PackShard(ctx context.Context, dir string, s Shard, o PackOptions) (Report, error) {
	p := &packer{dir: dir, enc: s.Encoder, o: o, shard: &shardRun{Shard: s}}
	if err := p.setDefaults(); err != nil {
		return Report{}, err
	}
	p.format = formatFile{RecordImages: max(p.o.RecordImages, 1), Order: OrderPath}
	p.out = packLog{
		fs: p.o.FS, dir: p.packs(), packBytes: p.o.PackBytes, next: s.Age,
		id: p.shard.nextID, sealed: p.sealedShard,
	}
	p.gather()
	err := p.o.FS.MkdirAll(p.packs())
	if err == nil {
		err = inOrder(ctx, p.o.Workers, p.o.MemoryBytes, p.findPlanned)
	}
	if err == nil {
		err = p.batch.flush()
	}
	if err == nil {
		err = p.out.seal()
	}
	err = errors.Join(err, p.out.close())
	p.report.Bytes, p.report.Packs = p.out.written, p.out.packs
	return p.report, err
}

// shardRun is one run of PackShard.
type shardRun struct {
	Shard
	packs uint64 // that have an id
}

// nextID is the id of the next pack: whoever packs the shard gives it the same one.
func (s *shardRun) nextID() packID {
	s.packs++
	return shardPackID(s.Digest, s.Number, s.packs-1)
}

func shardPackID(digest [sha256.Size]byte, shard int, n uint64) (id packID) {
	h := sha256.New()
	b := append([]byte("pipefsSH"), digest[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(shard))
	_, _ = h.Write(binary.LittleEndian.AppendUint64(b, n))
	copy(id[:], h.Sum(nil))
	return id
}

// ShardPack names the n-th pack of a shard, from 0 on.
func ShardPack(plan ID, digest [sha256.Size]byte, shard int, age, n uint64) SealedPack {
	return SealedPack{packSeal: packSeal{ID: shardPackID(digest, shard, n), Age: age}, Plan: plan}
}

// sealedShard writes the segment of a pack, and hands both over.
func (p *packer) sealedShard(s packSeal) error {
	p.out.next = s.Age // of the next one, too
	here := s.name()
	segment, err := makeSegment(p.o.FS, p.dir, here)
	if err != nil {
		return err
	}
	return p.shard.Put(SealedPack{packSeal: s, Segment: segment, Plan: p.shard.Plan},
		filepath.Join(p.dir, here.file()), filepath.Join(p.dir, here.segment()))
}

// findPlanned hands over all entries of a shard.
func (p *packer) findPlanned(ctx context.Context, hand func(work) error) error {
	for e, err := range p.shard.Entries {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		w := p.work(ctx, e.SourceFile)
		if e.Kind == Tombstone {
			w = work{store: func(error) error { return p.put(&item{Sample: Sample{Path: e.Path, Kind: Tombstone}}) }}
		}
		store := w.store
		w.store = func(made error) error {
			p.next = e.Seq
			return store(made)
		}
		if err := hand(w); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// readError ends the packing of a shard: another worker, or another time, may have no such error.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

func (s *shardRun) read(ctx context.Context, f SourceFile) ([]byte, Identity, error) {
	data, err := s.Source.Read(ctx, f)
	if err != nil {
		err = &readError{err}
	}
	return data, f.Identity, err
}

func (s *shardRun) copy(ctx context.Context, f SourceFile, w io.Writer) error {
	if err := s.Source.Copy(ctx, f, w); err != nil {
		return &readError{err}
	}
	return nil
}

// The reasons for which a planned file is left out.
var (
	errGone  = errors.New("it is gone")
	errOther = errors.New("it is not the version that was planned")
)

// ShardGrowth is how many times as long as its file what is stored of it may be; what a record takes is always
// permitted. A worker's memory and disk are bounded by it.
const ShardGrowth = 8

// mayTake refuses what takes more memory than a worker of a shard may need.
func (p *packer) mayTake(it *item) error {
	if n, most := it.size(), max(p.o.RecordBytes, ShardGrowth*it.Source.Size); n > most {
		return fmt.Errorf("what is stored of it takes %d bytes, more than %d", n, most)
	}
	return nil
}

// maxReason is the longest reason, in bytes.
const maxReason = 500

// failure is why a file is left out, in words that are the same on every machine; or a readError.
func (s *shardRun) failure(err error) error {
	var bad *readError
	switch {
	case errors.Is(err, ErrChanged):
		return errOther
	case errors.As(err, &bad) && errors.Is(err, fs.ErrNotExist):
		return errGone
	case errors.As(err, &bad):
		return bad
	}
	line, _, _ := strings.Cut(err.Error(), "\n") // of a panic, without the stack
	return errors.New(clip(line, maxReason))
}

// committedFile says which packs of a plan count. It lies with them, so that a generation
// can be made again.
type committedFile struct {
	Magic   string       `json:"magic"`
	Version int          `json:"version"`
	Plan    packID       `json:"plan"`
	Base    string       `json:"base"` // the generation that the plan was made against
	Packs   []SealedPack `json:"packs"`
}

const (
	committedName    = "COMMITTED"
	committedMagic   = "pipefs plan committed"
	committedVersion = 1
)

func committedPath(plan packID) string {
	return filepath.Join(packName{plan: plan}.dir(), committedName)
}

// plansOf returns the plans that a store has a directory of.
func plansOf(fsys vfs.FS, dir string) (plans []packID, err error) {
	names, err := fsys.List(filepath.Join(dir, plansName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		var id packID
		if id.UnmarshalText([]byte(name)) == nil && fmt.Sprintf("%x", id) == name {
			plans = append(plans, id)
		}
	}
	return plans, err
}

// readCommitted reads which packs of a plan count. The error is of the class fs.ErrNotExist
// where the plan is not committed.
func readCommitted(fsys vfs.FS, dir string, plan packID) (*committedFile, error) {
	c := &committedFile{}
	name := committedPath(plan)
	_, err := readText(fsys, filepath.Join(dir, name), c)
	var bad *CorruptError
	switch {
	case errors.As(err, &bad):
		return nil, &CorruptError{Path: name, Cause: fmt.Errorf("%w; pipefs commit of this plan writes it again", bad.Cause)}
	case err != nil:
		return nil, err
	case c.Magic != committedMagic || c.Plan != plan:
		return nil, &CorruptError{Path: name, Cause: errors.New("of something else; pipefs commit of this plan writes it again")}
	case c.Version != committedVersion:
		return nil, fmt.Errorf("%s: of version %d, and this pipefs reads %d: %w", name, c.Version, committedVersion, ErrVersion)
	}
	return c, nil
}

// listStored returns the packs of a store, the oldest first: those in packs, and the sealed
// ones of plans that are committed.
func listStored(fsys vfs.FS, dir string) (sealed, unfinished []packName, err error) {
	sealed, unfinished, err = listPacks(fsys, filepath.Join(dir, packsName))
	if errors.Is(err, fs.ErrNotExist) { // all may be of plans
		if names, listed := fsys.List(filepath.Join(dir, plansName)); listed == nil && len(names) > 0 {
			err = nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	plans, err := plansOf(fsys, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, plan := range plans {
		c, err := readCommitted(fsys, dir, plan)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		of := make([]packName, len(c.Packs))
		for i := range c.Packs {
			of[i] = c.Packs[i].name()
		}
		if of, err = present(fsys, dir, plan, of); err != nil {
			return nil, nil, err
		}
		sealed = append(sealed, of...)
	}
	slices.SortFunc(sealed, packName.compare)
	return sealed, unfinished, nil
}

// listCounting is listStored without the packs that the current generation says are replaced.
func listCounting(fsys vfs.FS, dir string) (sealed, unfinished []packName, err error) {
	sealed, unfinished, err = listStored(fsys, dir)
	g, broken := readGeneration(fsys, dir)
	if broken != nil { // the packs say it
		g = nil
	}
	return g.counting(sealed), unfinished, err
}

// present are those of some packs of a plan that are there. Others may have taken their
// place, and they were removed since.
func present(fsys vfs.FS, dir string, plan packID, packs []packName) (there []packName, err error) {
	all, _, err := listPacks(fsys, filepath.Join(dir, packName{plan: plan}.dir(), packsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return slices.DeleteFunc(packs, func(n packName) bool {
		n.plan = packID{} // a listing does not know it
		_, is := slices.BinarySearchFunc(all, n, packName.compare)
		return !is
	}), nil
}
