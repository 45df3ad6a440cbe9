package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// A record on disk: a frame of fixed size, the entries, the data.
const (
	recordMagic = "pREC"
	frameSize   = 24
	// maxMeta bounds the entries of one record, in bytes.
	maxMeta = 64 << 20
	// maxRecordEntries ends a record that holds next to no samples, such as one
	// of many empty directories.
	maxRecordEntries = 4096
)

// frame is the head of a record.
type frame struct {
	meta    int   // length of the entries, bytes
	data    int64 // length of the data, bytes
	metaSum uint32
}

func appendFrame(b []byte, f frame) []byte {
	at := len(b)
	b = append(b, recordMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(f.meta))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.data))
	b = binary.LittleEndian.AppendUint32(b, f.metaSum)
	return binary.LittleEndian.AppendUint32(b, sum(b[at:]))
}

func parseFrame(b []byte) (frame, error) {
	if len(b) < frameSize {
		return frame{}, fmt.Errorf("record header: %w", errShort)
	}
	if string(b[:4]) != recordMagic {
		return frame{}, fmt.Errorf("begins with % x: no record", b[:4])
	}
	if sum(b[:20]) != binary.LittleEndian.Uint32(b[20:]) {
		return frame{}, fmt.Errorf("record header: checksum differs")
	}
	meta, data := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:])
	if meta > maxMeta || data > maxLen {
		return frame{}, fmt.Errorf("record of %d + %d bytes is over the limits", meta, data)
	}
	return frame{meta: int(meta), data: int64(data), metaSum: binary.LittleEndian.Uint32(b[16:])}, nil
}

// item is an entry that is about to be stored, with the bytes of its parts.
type item struct {
	Sample
	data [][][]byte // by representation and part; nil where they are copied
}

// record is a record that is about to be written.
type record struct {
	meta []byte   // encoded entries
	data [][]byte // in the order in which they are written
	size int64    // of data
}

// layOut places the parts of the items scan group by scan group and encodes
// their entries. Representations come in the order of their keys. The items'
// parts get offsets relative to the data.
func layOut(items []*item) (*record, error) {
	rec := &record{}
	var keys []string
	for _, it := range items {
		for i := range it.Representations {
			keys = append(keys, it.Representations[i].Key)
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		for n, more := 0, true; more; n++ {
			more = false
			for _, it := range items {
				i := slices.IndexFunc(it.Representations, func(r Representation) bool { return r.Key == key })
				if i < 0 || n >= len(it.Representations[i].Parts) {
					continue
				}
				more = true
				part := &it.Representations[i].Parts[n]
				part.Off = rec.size
				rec.size += part.Len
				if it.data != nil {
					rec.data = append(rec.data, it.data[i][n])
				}
			}
		}
	}
	rec.meta = binary.AppendUvarint(nil, uint64(len(items)))
	var raw []byte
	for _, it := range items {
		raw = appendEntry(raw[:0], &it.Sample)
		if len(raw) > maxEntry {
			return nil, fmt.Errorf("%s: an entry of %d bytes is over the limit of %d: the file is too large", it.Path, len(raw), maxEntry)
		}
		rec.meta = appendBytes(rec.meta, raw)
	}
	if len(rec.meta) > maxMeta {
		return nil, fmt.Errorf("a record with %d bytes of entries is over the limit of %d: use fewer samples a record", len(rec.meta), maxMeta)
	}
	return rec, nil
}

// eachEntry calls f with each encoded entry of a record.
func eachEntry(meta []byte, f func(raw []byte) error) error {
	d := decoder{b: meta}
	n := d.count("number of entries", maxMeta, 1)
	for range n {
		raw := d.bytes("length of an entry", maxEntry)
		if d.err != nil {
			break
		}
		if err := f(raw); err != nil {
			return err
		}
	}
	return d.done()
}

// decodeRecord decodes all entries of a record. Their parts cover its data
// without gap or overlap, so that every byte has a checksum.
func decodeRecord(meta []byte, at place) ([]Sample, error) {
	var samples []Sample
	err := eachEntry(meta, func(raw []byte) error {
		s, err := decodeEntry(raw, at)
		samples = append(samples, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	var parts []Part
	_ = eachPart(samples, func(_ string, p Part) error {
		parts = append(parts, p)
		return nil
	})
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.Len, b.Len)) })
	end := at.base
	for _, p := range parts {
		if p.Off != end && p.Len > 0 {
			return nil, fmt.Errorf("a part at %d where %d is expected", p.Off, end)
		}
		end += p.Len
	}
	if end != at.base+at.size {
		return nil, fmt.Errorf("parts of %d bytes in a record of %d", end-at.base, at.size)
	}
	return samples, nil
}
