package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pipefs/pipefs/store/vfs"
)

// A pack on disk: a header, records, a footer that repeats the entries of all
// records, a trailer of fixed size.
const (
	packMagic    = "pipefsPK"
	trailerMagic = "pipefsFT"
	packVersion  = 2
	headerSize   = 28
	trailerSize  = 56
	// sealFooter seals a pack whose footer has grown to this, in bytes, however
	// few its data: a footer is read into memory as a whole.
	sealFooter = 16 << 20
	// maxFooter is the longest footer: one entry more than sealFooter, and the count.
	maxFooter = sealFooter + maxMeta + 4*binary.MaxVarintLen64
	// minMeta is the length of the entries of the shortest record, in bytes.
	minMeta = 38
)

func appendPackHeader(b []byte, age uint64) []byte {
	at := len(b)
	b = append(b, packMagic...)
	b = binary.LittleEndian.AppendUint32(b, packVersion)
	b = binary.LittleEndian.AppendUint32(b, 0) // flags, none yet
	b = binary.LittleEndian.AppendUint64(b, age)
	return binary.LittleEndian.AppendUint32(b, sum(b[at:]))
}

func checkPackHeader(b []byte, age uint64) error {
	if len(b) < headerSize || string(b[:8]) != packMagic {
		return errors.New("no pack")
	}
	v := binary.LittleEndian.Uint32(b[8:])
	switch {
	case v == 1 && sum(b[:20]) == binary.LittleEndian.Uint32(b[20:]): // its header is shorter
	case sum(b[:24]) != binary.LittleEndian.Uint32(b[24:]):
		return errors.New("pack header: checksum differs")
	}
	if v != packVersion {
		return fmt.Errorf("pack of version %d: %w", v, ErrVersion)
	}
	if f := binary.LittleEndian.Uint32(b[12:]); f != 0 {
		return fmt.Errorf("pack with flags %#x: %w", f, ErrVersion)
	}
	if is := binary.LittleEndian.Uint64(b[16:]); is != age {
		return fmt.Errorf("holds a pack of age %d: files were swapped or renamed", is)
	}
	return nil
}

// packSeal distinguishes a sealed pack from every other.
type packSeal struct {
	ID        packID `json:"id"`
	Age       uint64 `json:"age"`
	Size      int64  `json:"size"` // bytes
	FooterSum uint32 `json:"footer_crc32c"`
	Records   int64  `json:"records"`

	footerOff, footerLen int64
}

func (s *packSeal) name() packName { return packName{age: s.Age, id: s.ID} }

func appendTrailer(b []byte, s packSeal) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.footerOff))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.footerLen))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Records))
	b = append(b, s.ID[:]...)
	b = binary.LittleEndian.AppendUint32(b, s.FooterSum)
	b = binary.LittleEndian.AppendUint32(b, sum(b[at:]))
	return append(b, trailerMagic...)
}

// corruptAt makes the error about a place in a pack. An I/O error is not
// corruption and stays what it is, with the place in front.
func corruptAt(pack packName, off int64, path string, cause error) error {
	switch {
	case cause == nil:
		return nil
	case errors.Is(cause, ErrCorrupt), errors.Is(cause, ErrVersion):
		return cause
	case errors.Is(cause, io.EOF), errors.Is(cause, io.ErrUnexpectedEOF):
		cause = errShort
	case isIOError(cause):
		return fmt.Errorf("%s, offset %d: %w", pack, off, cause)
	}
	return &CorruptError{Pack: pack.String(), Offset: off, Path: path, Cause: cause}
}

// readFull reads exactly len(b) bytes at off.
func readFull(f io.ReaderAt, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// readSeal checks the header and the trailer of a sealed pack.
func readSeal(f vfs.File, name packName) (packSeal, error) {
	s := packSeal{ID: name.id, Age: name.age}
	var err error
	if s.Size, err = f.Size(); err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	if s.Size < headerSize+trailerSize {
		return s, corruptAt(name, s.Size, "", errShort)
	}
	var b [max(headerSize, trailerSize)]byte
	if err = readFull(f, b[:headerSize], 0); err == nil {
		err = checkPackHeader(b[:headerSize], name.age)
	}
	if err != nil {
		return s, corruptAt(name, 0, "", err)
	}
	at := s.Size - trailerSize
	if err = readFull(f, b[:trailerSize], at); err != nil {
		return s, corruptAt(name, at, "", err)
	}
	switch {
	case string(b[48:]) != trailerMagic:
		return s, corruptAt(name, at, "", errors.New("no trailer: the pack is truncated or overwritten"))
	case sum(b[:44]) != binary.LittleEndian.Uint32(b[44:]):
		return s, corruptAt(name, at, "", errors.New("trailer: checksum differs"))
	case packID(b[24:40]) != name.id:
		return s, corruptAt(name, at, "", fmt.Errorf("holds pack %s: files were swapped or renamed", packName{age: name.age, id: packID(b[24:40])}))
	}
	off, length, records := binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	s.FooterSum = binary.LittleEndian.Uint32(b[40:])
	if off < headerSize || off > uint64(at) || length != uint64(at)-off || length > maxFooter || records > length {
		return s, corruptAt(name, at, "", fmt.Errorf("trailer names a footer of %d records in %d bytes at %d", records, length, off))
	}
	s.footerOff, s.footerLen, s.Records = int64(off), int64(length), int64(records)
	return s, nil
}

// described is a record as a footer describes it.
type described struct {
	off     int64 // of the record, in the pack
	at      place // of its data
	meta    []byte
	metaOff int64 // where the footer holds meta, in the pack
}

// readFooter reads and checks what a sealed pack says about itself.
func readFooter(f vfs.File, p packRef) (packSeal, []described, error) {
	s, err := readSeal(f, p.packName)
	if err != nil {
		return s, nil, err
	}
	footer := make([]byte, s.footerLen)
	if err = readFull(f, footer, s.footerOff); err == nil && sum(footer) != s.FooterSum {
		err = errors.New("footer: checksum differs")
	}
	if err != nil {
		return s, nil, corruptAt(p.packName, s.footerOff, "", err)
	}
	records, err := parseFooter(footer, s, p.number)
	if err != nil {
		return s, nil, corruptAt(p.packName, s.footerOff, "", fmt.Errorf("footer: %w", err))
	}
	return s, records, nil
}

// eachSealed calls f with each record of a sealed pack, as the footer describes it. The
// data is not read.
func eachSealed(file vfs.File, p packRef, f func(scanned) error) (packSeal, error) {
	seal, records, err := readFooter(file, p)
	for _, r := range records {
		samples, err := decodeRecord(r.meta, r.at)
		if err != nil {
			return seal, corruptAt(p.packName, r.metaOff, "", err)
		}
		if err := f(scanned{off: r.off, end: r.at.base + r.at.size, at: r.at, meta: r.meta, samples: samples}); err != nil {
			return seal, err
		}
	}
	return seal, err
}

// parseFooter reads a footer. Its records cover the pack without gap.
func parseFooter(footer []byte, s packSeal, number uint32) ([]described, error) {
	d := decoder{b: footer}
	n := d.count("number of records", maxFooter, 3+minMeta)
	records := make([]described, 0, n)
	end := int64(headerSize)
	for range n {
		r := described{off: int64(d.uvarint("offset of a record", maxLen))}
		r.at.pack = number
		r.at.size = int64(d.uvarint("length of a record's data", maxLen))
		r.meta = d.bytes("length of a record's entries", maxMeta)
		if d.err == nil && len(r.meta) < minMeta {
			d.fail("a record with %d bytes of entries", len(r.meta))
		}
		if d.err != nil {
			break
		}
		r.metaOff = s.footerOff + int64(len(footer)-len(d.b)-len(r.meta))
		r.at.base = r.off + frameSize + int64(len(r.meta))
		if r.off != end {
			return nil, fmt.Errorf("a record at %d where %d is expected", r.off, end)
		}
		end = r.at.base + r.at.size
		records = append(records, r)
	}
	if err := d.done(); err != nil {
		return nil, err
	}
	if int64(n) != s.Records {
		return nil, fmt.Errorf("%d records, the trailer says %d", n, s.Records)
	}
	if end != s.footerOff {
		return nil, fmt.Errorf("records end at %d, the footer begins at %d", end, s.footerOff)
	}
	return records, nil
}
