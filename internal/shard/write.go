package shard

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"math/bits"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
)

// planWriter writes a plan: the blocks of entries one after another, then the table of shards, the header
// and the trailer.
type planWriter struct {
	Header
	spool  *spool // only its file
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
	s, err := newSpool(m.Temp)
	if err != nil {
		return nil, err
	}
	return &planWriter{
		Header: h, spool: s, w: bufio.NewWriterSize(s.f, 1<<20),
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
	if err := putAbsent(ctx, place, p.info.Name, w.spool.f, p.info.Size); err != nil {
		return nil, err
	}
	p.info, err = place.Stat(ctx, p.info.Name)
	return p, err
}
