package store

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// batch is the record that is being gathered, and where it goes.
type batch struct {
	out   *packLog
	most  int                       // samples of a record
	limit int64                     // bytes of its data
	wrote func(items []*item) error // is called for each record that was written

	items  []*item
	images int
	bytes  int64 // of data
	meta   int64 // of entries, about
}

// metaLimit ends a record whose entries grow long, in bytes.
const metaLimit = 16 << 20

// newItem turns what an encoder made into what is stored.
func newItem(s Sample, e Encoded) (*item, error) {
	s.Info = e.Info
	s.Fault = clip(e.Fault, maxFault)
	it := &item{Sample: s}
	for _, r := range e.Representations {
		rep, data, err := split(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Key, err)
		}
		it.Representations = append(it.Representations, rep)
		it.data = append(it.data, data)
	}
	if err := checkSample(&it.Sample); err != nil {
		return nil, err
	}
	if n := it.metaSize(); n > maxEntry {
		return nil, fmt.Errorf("an entry of %d bytes is over the limit of %d: the file is too large", n, maxEntry)
	}
	return it, nil
}

// split cuts a Split into parts.
func split(r EncodedRepresentation) (Representation, [][]byte, error) {
	rep := Representation{Key: r.Key, Levels: r.Split.Levels, Tail: r.Split.Tail}
	ends := r.Split.Ends
	if len(ends) == 0 && len(r.Split.Data) > 0 {
		ends = []int{len(r.Split.Data)}
	}
	data := make([][]byte, 0, len(ends))
	begin := 0
	for _, end := range ends {
		if end < begin || end > len(r.Split.Data) {
			return rep, nil, fmt.Errorf("a part from %d to %d of %d bytes", begin, end, len(r.Split.Data))
		}
		b := r.Split.Data[begin:end]
		data = append(data, b)
		rep.Parts = append(rep.Parts, Part{Len: int64(len(b)), Sums: appendSums(nil, b)})
		begin = end
	}
	if begin != len(r.Split.Data) {
		return rep, nil, fmt.Errorf("parts of %d bytes where there are %d", begin, len(r.Split.Data))
	}
	return rep, data, nil
}

// clip shortens s to at most n bytes of valid UTF-8.
func clip(s string, n int) string {
	return strings.ToValidUTF8(s[:min(len(s), n)], "")
}

// metaSize is an upper bound for the length of the encoded entry.
func (it *item) metaSize() int64 {
	numbers := 1 // that may grow: the sequence number, and the offsets of parts
	for i := range it.Representations {
		numbers += len(it.Representations[i].Parts)
	}
	return int64(len(appendEntry(nil, &it.Sample)) + numbers*binary.MaxVarintLen64)
}

// size is the length of the data, in bytes.
func (s *Sample) size() (n int64) {
	for i := range s.Representations {
		for j := range s.Representations[i].Parts {
			n += s.Representations[i].Parts[j].Len
		}
	}
	return n
}

// put adds an entry to the record that is being gathered.
func (p *packer) put(it *item) error {
	it.Seq = p.next
	p.next++
	return p.batch.add(it)
}

// add adds an entry, and writes the record where it is complete. What ends a record depends on what it
// holds alone, so that the same dataset makes the same packs.
func (b *batch) add(it *item) error {
	size, meta := it.size(), it.metaSize()
	if b.bytes+size > b.limit || b.meta+meta > metaLimit {
		if err := b.flush(); err != nil {
			return err
		}
	}
	b.items = append(b.items, it)
	b.bytes += size
	b.meta += meta
	if it.Kind == File {
		b.images++
	}
	if b.images >= b.most || len(b.items) >= maxRecordEntries {
		return b.flush()
	}
	return nil
}

// flush writes the record that was gathered.
func (b *batch) flush() error {
	items := b.items
	b.items, b.images, b.bytes, b.meta = nil, 0, 0, 0
	if len(items) == 0 {
		return nil
	}
	rec, err := layOut(items)
	if err == nil {
		_, err = b.out.append(rec)
	}
	if err != nil {
		return err
	}
	return b.wrote(items)
}

// wrote counts a record that was written.
func (p *packer) wrote(items []*item) error {
	for _, it := range items {
		switch it.Kind {
		case File:
			p.report.Files++
			p.report.Source += it.Source.Size
			if it.Fault != "" {
				p.report.Faults++
			}
		case Dir:
			p.report.Dirs++
		case Tombstone:
			p.report.Removed++
		}
	}
	p.tell()
	return p.out.advance()
}

// tell tells the progress.
func (p *packer) tell() {
	p.report.Skipped, p.report.Bytes = p.skipped.Load(), p.out.written
	p.o.Progress(p.report.Progress)
}

// writeTombstones writes a tombstone for everything stored that the walk did not meet,
// except below paths that could not be walked.
func (p *packer) writeTombstones() error {
	if !p.state.anyGone() {
		return nil
	}
	var gone []string
	collect := func(rec scanned) {
		for i := range rec.samples {
			s := &rec.samples[i]
			if s.Kind != Tombstone && p.state.gone(s.Path) && !slices.ContainsFunc(p.unread, func(dir string) bool { return below(s.Path, dir) }) {
				gone = append(gone, s.Path)
			}
		}
	}
	sealed, _, err := listCounting(p.o.FS, p.dir)
	if err != nil {
		return err
	}
	for _, n := range sealed {
		if err := p.eachStored(n, func(rec scanned) error { collect(rec); return nil }); err != nil {
			return err
		}
	}
	if w := p.out.w; w != nil { // what was salvaged is in no sealed pack
		for rec, err := range scan(w.f, byAge(w.name()), w.end, false) {
			if err != nil {
				return err
			}
			collect(rec)
		}
	}
	slices.Sort(gone)
	for _, path := range slices.Compact(gone) {
		if err := p.put(&item{Sample: Sample{Path: path, Kind: Tombstone}}); err != nil {
			return err
		}
	}
	return nil
}

// below reports whether path is dir or in it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
