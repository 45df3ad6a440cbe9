package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// Limits of what an entry may hold. They bound what a hostile pack can cost, and
// are far above anything that a dataset needs.
const (
	maxPath  = 4096
	maxFault = 1024
	maxKey   = 1024
	maxReps  = 256
	maxParts = 1 << 16
	maxTail  = 64 << 10
	maxSeq   = 1 << 62
	// maxLen bounds every offset and length: sums of a few never overflow.
	maxLen = 1 << 56
	// maxEntry is the longest encoded entry, in bytes. 256 GiB of data have 16 MiB of
	// checksums.
	maxEntry = 16<<20 - 1<<10
)

// appendEntry appends the stored form of s. Offsets of parts are relative to
// where the data of the record begins, so that it does not matter where the
// record comes to lie.
func appendEntry(b []byte, s *Sample) []byte {
	b = appendBytes(b, s.Path)
	b = append(b, byte(s.Kind))
	b = binary.AppendUvarint(b, uint64(s.Mode))
	b = binary.AppendUvarint(b, uint64(s.Seq))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Source.Size))
	b = append(b, s.Source.Version[:]...)
	if s.Kind != File {
		return b
	}
	b = transcode.AppendInfo(b, s.Info)
	b = appendBytes(b, s.Fault)
	b = binary.AppendUvarint(b, uint64(len(s.Representations)))
	for i := range s.Representations {
		r := &s.Representations[i]
		b = appendBytes(b, r.Key)
		b = binary.AppendUvarint(b, uint64(len(r.Parts)))
		for _, p := range r.Parts {
			b = binary.AppendUvarint(b, uint64(p.Off))
			b = binary.AppendUvarint(b, uint64(p.Len))
		}
		for _, p := range r.Parts {
			for _, s := range p.Sums {
				b = binary.LittleEndian.AppendUint32(b, s)
			}
		}
		b = binary.AppendUvarint(b, uint64(len(r.Levels)))
		for _, l := range r.Levels {
			b = binary.AppendUvarint(b, uint64(l))
		}
		b = appendBytes(b, r.Tail)
	}
	return b
}

// place says where the record of an entry lies.
type place struct {
	pack uint32
	base int64 // offset of the record's data in the pack
	size int64 // of the record's data
}

// decodeEntry reads what appendEntry wrote. Every part lies within the record.
func decodeEntry(raw []byte, at place) (Sample, error) {
	d := decoder{b: raw}
	s := decodeHead(&d)
	if s.Kind == File {
		var err error
		if s.Info, d.b, err = transcode.ReadInfo(d.b); err != nil {
			d.fail("%w", err)
		}
		s.Fault = string(d.bytes("length of the fault", maxFault))
		s.Representations = make([]Representation, d.count("number of representations", maxReps, 4))
		for i := range s.Representations {
			decodeRepresentation(&d, &s.Representations[i], at)
			s.Representations[i].path, s.Representations[i].src = s.Path, s.Source
		}
	}
	if err := d.done(); err != nil {
		return Sample{}, fmt.Errorf("entry %q: %w", s.Path, err)
	}
	return s, nil
}

// decodeHead reads the part that entries of all kinds have.
func decodeHead(d *decoder) Sample {
	var s Sample
	s.Path = string(d.bytes("length of the path", maxPath))
	s.Kind = Kind(d.byte())
	s.Mode = uint32(d.uvarint("mode", 0o7777))
	s.Seq = int64(d.uvarint("sequence number", maxSeq))
	s.Source.Size = int64(d.u64())
	copy(s.Source.Version[:], d.take(len(s.Source.Version)))
	if d.err != nil {
		return s
	}
	if s.Kind < File || s.Kind > Tombstone {
		d.fail("kind %d", s.Kind)
	} else if err := checkPath(s.Path, s.Kind); err != nil {
		d.fail("%w", err)
	}
	return s
}

func decodeRepresentation(d *decoder, r *Representation, at place) {
	r.Key = string(d.bytes("length of the key", maxKey))
	r.Parts = make([]Part, d.count("number of parts", maxParts, 2))
	total := int64(0)
	for i := range r.Parts {
		p := &r.Parts[i]
		p.Pack = at.pack
		p.Off = int64(d.uvarint("offset of a part", maxLen))
		p.Len = int64(d.uvarint("length of a part", maxLen))
		if p.Off+p.Len > at.size {
			d.fail("part of %d bytes at %d in a record of %d", p.Len, p.Off, at.size)
			return
		}
		p.Off += at.base
		total += chunks(p.Len)
		if total > int64(len(d.b)/4) {
			d.fail("checksums of parts: %w", errShort)
			return
		}
	}
	raw := d.take(int(total) * 4)
	sums := make([]uint32, total)
	for i := range sums {
		sums[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		n := chunks(p.Len)
		p.Sums, sums = sums[:n:n], sums[n:]
	}
	r.Levels = make([]int, d.count("number of levels", maxParts, 1))
	for i := range r.Levels {
		r.Levels[i] = int(d.uvarint("level", uint64(len(r.Parts))))
	}
	r.Tail = append([]byte(nil), d.bytes("length of the tail", maxTail)...)
}

var errPath = errors.New("not a clean relative path")

// checkPath refuses paths that could lead out of a directory, or that have a
// second spelling. Only a directory can be the dataset itself.
func checkPath(p string, k Kind) error {
	if p == "" {
		if k == File {
			return fmt.Errorf("a file with an empty path: %w", errPath)
		}
		return nil
	}
	if len(p) > maxPath {
		return fmt.Errorf("path of %d bytes: %w", len(p), errPath)
	}
	for rest, more := p, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if name == "" || name == "." || name == ".." || strings.IndexByte(name, 0) >= 0 {
			return fmt.Errorf("%q: %w", p, errPath)
		}
	}
	return nil
}

// checkSample refuses what decodeEntry would refuse, before it is written.
func checkSample(s *Sample) error {
	if err := checkPath(s.Path, s.Kind); err != nil {
		return err
	}
	if len(s.Representations) > maxReps {
		return fmt.Errorf("%d representations, over the limit of %d", len(s.Representations), maxReps)
	}
	for i := range s.Representations {
		r := &s.Representations[i]
		if r.Key == "" || len(r.Key) > maxKey {
			return fmt.Errorf("key of %d bytes, want 1 to %d", len(r.Key), maxKey)
		}
		if s.Representation(r.Key) != r {
			return fmt.Errorf("two representations with the key %s", r.Key)
		}
		if len(r.Parts) > maxParts || len(r.Levels) > maxParts || len(r.Tail) > maxTail {
			return fmt.Errorf("%s: %d parts, %d levels, a tail of %d bytes: over the limits", r.Key, len(r.Parts), len(r.Levels), len(r.Tail))
		}
		for _, l := range r.Levels {
			if l < 0 || l > len(r.Parts) {
				return fmt.Errorf("%s: a level of %d parts where there are %d", r.Key, l, len(r.Parts))
			}
		}
	}
	return nil
}
