package store

import (
	"errors"
	"fmt"
	"io"
	"iter"
)

// scanned is a record that scan found.
type scanned struct {
	off, end int64
	at       place
	meta     []byte // only until the next record
	samples  []Sample
}

// scan walks over the records of a pack by their own headers, without a footer,
// from the header up to limit. It ends before the first record that does not
// hold; the error it yields last says why. With data, checksums of the data are
// verified too.
func scan(f io.ReaderAt, p packRef, limit int64, data bool) iter.Seq2[scanned, error] {
	return func(yield func(scanned, error) bool) {
		buf := make([]byte, headerSize)
		if limit < headerSize {
			yield(scanned{}, corruptAt(p.packName, 0, "", errShort))
			return
		}
		if err := readFull(f, buf, 0); err != nil {
			yield(scanned{}, corruptAt(p.packName, 0, "", err))
			return
		}
		if err := checkPackHeader(buf, p.age); err != nil {
			yield(scanned{}, corruptAt(p.packName, 0, "", err))
			return
		}
		for off := int64(headerSize); off < limit; {
			rec, err := readRecord(f, p, off, limit, &buf)
			if err == nil && data {
				err = verifyRecord(f, p.packName, rec)
			}
			if !yield(rec, err) || err != nil {
				return
			}
			off = rec.end
		}
	}
}

// readRecord reads and checks the header of the record at off, which ends
// before limit. buf is scratch.
func readRecord(f io.ReaderAt, p packRef, off, limit int64, buf *[]byte) (scanned, error) {
	rec := scanned{off: off, end: off}
	var head [frameSize]byte
	if off < headerSize || off > limit-frameSize {
		return rec, corruptAt(p.packName, off, "", errShort)
	}
	if err := readFull(f, head[:], off); err != nil {
		return rec, corruptAt(p.packName, off, "", err)
	}
	fr, err := parseFrame(head[:])
	if err != nil {
		return rec, corruptAt(p.packName, off, "", err)
	}
	rec.at = place{pack: p.number, base: off + frameSize + int64(fr.meta), size: fr.data}
	if rec.at.base+rec.at.size > limit {
		return rec, corruptAt(p.packName, off, "", fmt.Errorf("record of %d bytes: %w", rec.at.base+rec.at.size-off, errShort))
	}
	if cap(*buf) < fr.meta {
		*buf = make([]byte, fr.meta)
	}
	rec.meta = (*buf)[:fr.meta]
	if err = readFull(f, rec.meta, off+frameSize); err == nil && sum(rec.meta) != fr.metaSum {
		err = errors.New("entries of a record: checksum differs")
	}
	if err == nil {
		rec.samples, err = decodeRecord(rec.meta, rec.at)
	}
	if err != nil {
		return rec, corruptAt(p.packName, off, "", err)
	}
	rec.end = rec.at.base + rec.at.size
	return rec, nil
}

// verifyRecord checks the data of a record.
func verifyRecord(f io.ReaderAt, pack packName, rec scanned) error {
	scratch := scratches.Get().(*[ChunkSize]byte)
	defer scratches.Put(scratch)
	for i := range rec.samples {
		s := &rec.samples[i]
		for _, r := range s.Representations {
			for _, p := range r.Parts {
				if err := verifyPart(f, pack, p, s.Path, scratch); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func verifyPart(f io.ReaderAt, pack packName, p Part, path string, scratch *[ChunkSize]byte) error {
	for i, want := range p.Sums {
		off := int64(i) * ChunkSize
		b := scratch[:min(ChunkSize, p.Len-off)]
		err := readFull(f, b, p.Off+off)
		if err == nil && sum(b) != want {
			err = errSum
		}
		if err != nil {
			return corruptAt(pack, p.Off+off, path, err)
		}
	}
	return nil
}
