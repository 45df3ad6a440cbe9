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
	"strings"
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
	err := p.o.FS.MkdirAll(p.packs())
	if err == nil {
		err = inOrder(ctx, p.o.Workers, p.o.MemoryBytes, p.findPlanned)
	}
	if err == nil {
		err = p.flush()
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
