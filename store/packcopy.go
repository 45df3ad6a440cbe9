package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pipefs/pipefs/transcode"
)

// maxCopied is the size of a file, in bytes, of which an entry could not even hold the checksums, were it longer.
const maxCopied = maxEntry / 4 * ChunkSize

// copied reports whether a file gets a record of its own, without being in memory.
// That depends on the file and the options alone, as what a record holds does.
func (p *packer) copied(f SourceFile) bool {
	return f.Verbatim && f.Kind == File && f.Identity.Size >= p.o.RecordBytes/4
}

// copyIn stores a long file as it is. A file that cannot be read is left out; the
// error is one of writing.
func (p *packer) copyIn(ctx context.Context, f SourceFile) error {
	if err := p.batch.flush(); err != nil {
		return err
	}
	rec, it, err := p.copyStable(ctx, f)
	switch {
	case err == nil:
		p.next++
		p.out.count(rec)
		return p.wrote([]*item{it})
	case ctx.Err() != nil:
		return ctx.Err()
	case it != nil && (p.out.w == nil || p.out.w.err != nil): // no pack can be begun, or written to
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return p.leaveOut(f.Path, err)
}

// copyStable copies a file, again if it changed meanwhile.
func (p *packer) copyStable(ctx context.Context, f SourceFile) (rec *record, it *item, err error) {
	id := f.Identity
	for try := range 5 {
		if err := pause(ctx, try); err != nil {
			return nil, nil, err
		}
		it = &item{Sample: Sample{
			Path: f.Path, Kind: File, Mode: f.Mode, Source: id, Seq: p.next,
			Representations: []Representation{{Key: transcode.Original, Parts: []Part{{Len: id.Size}}}},
		}}
		if id.Size > maxCopied {
			return nil, nil, fmt.Errorf("a file of %d bytes: a store takes up to %d of one file", id.Size, maxCopied)
		}
		it.Representations[0].Parts[0].Sums = make([]uint32, chunks(id.Size))
		if err = p.out.begin(); err != nil {
			return nil, it, err
		}
		var after Identity
		after, rec, err = p.out.w.copy(it, func(w io.Writer) (Identity, error) {
			if p.shard != nil {
				return f.Identity, p.shard.copy(ctx, f, w)
			}
			return p.src.Copy(ctx, f.Path, w)
		})
		if !errors.Is(err, ErrChanged) {
			return rec, it, err
		}
		id = after
	}
	return nil, it, err
}

// pause waits before a file is read once more.
func pause(ctx context.Context, try int) error {
	if try < 2 {
		return ctx.Err()
	}
	select {
	case <-time.After(time.Duration(try) * 20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// copy appends a record of an item with one part, whose bytes come from copy. What
// was written of a file that proves to be another, or cannot be read, is cut off.
func (w *packWriter) copy(it *item, copy func(io.Writer) (Identity, error)) (after Identity, rec *record, err error) {
	if w.err != nil {
		return after, nil, w.err
	}
	// The sums do not change the length of the entry.
	if rec, err = layOut([]*item{it}); err != nil {
		return after, nil, err
	}
	part := &it.Representations[0].Parts[0]
	c := &copier{w: w, at: w.end + frameSize + int64(len(rec.meta)), left: part.Len, sums: part.Sums[:0]}
	after, err = copy(c)
	c.endChunk()
	if err == nil && (after != it.Source || c.left != 0) {
		err = ErrChanged
	}
	if err == nil {
		rec, err = layOut([]*item{it})
	}
	if err == nil {
		head := appendFrame(nil, frame{meta: len(rec.meta), data: rec.size, metaSum: sum(rec.meta)})
		_, c.failed = w.f.WriteAt(append(head, rec.meta...), w.end)
		err = c.failed
	}
	if err != nil {
		if cut := w.f.Truncate(w.end); cut != nil || c.failed != nil {
			w.err = fmt.Errorf("write %s, offset %d: %w", w.name(), c.at, errors.Join(c.failed, cut))
			err = w.err
		}
		return after, nil, err
	}
	w.describe(w.end, rec.size, rec.meta)
	w.end = c.at
	return after, rec, nil
}

// copier writes the data of a record, and computes its checksums.
type copier struct {
	w      *packWriter
	at     int64 // where the next byte goes, in the pack
	left   int64 // bytes that are to come
	sums   []uint32
	sum    uint32 // of the chunk that is being written
	chunk  int    // bytes of it
	failed error  // of writing
}

// Write implements [io.Writer].
func (c *copier) Write(b []byte) (int, error) {
	if int64(len(b)) > c.left {
		return 0, ErrChanged
	}
	n, err := c.w.f.WriteAt(b, c.at)
	c.at += int64(n)
	c.left -= int64(n)
	if err != nil {
		c.failed = err
		return n, err
	}
	for len(b) > 0 {
		part := b[:min(len(b), ChunkSize-c.chunk)]
		c.sum = updateSum(c.sum, part)
		if c.chunk += len(part); c.chunk == ChunkSize {
			c.endChunk()
		}
		b = b[len(part):]
	}
	return n, nil
}

// endChunk notes the checksum of what was written since the last one.
func (c *copier) endChunk() {
	if c.chunk > 0 {
		c.sums = append(c.sums, c.sum)
	}
	c.sum, c.chunk = 0, 0
}
