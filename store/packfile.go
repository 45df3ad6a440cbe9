package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/store/vfs"
)

// A pack on disk: a header, records, a footer that repeats the entries of all
// records, a trailer of fixed size.
const (
	packMagic    = "pipefsPK"
	trailerMagic = "pipefsFT"
	packVersion  = 1
	headerSize   = 24
	trailerSize  = 36
	// sealFooter seals a pack whose footer has grown to this, in bytes, however
	// few its data: a footer is read into memory as a whole.
	sealFooter = 16 << 20
	// maxFooter is the longest footer: one entry more than sealFooter, and the count.
	maxFooter = sealFooter + maxMeta + 4*binary.MaxVarintLen64
	// minMeta is the length of the entries of the shortest record, in bytes.
	minMeta    = 38
	partSuffix = ".part"
)

func appendPackHeader(b []byte, number uint32) []byte {
	at := len(b)
	b = append(b, packMagic...)
	b = binary.LittleEndian.AppendUint32(b, packVersion)
	b = binary.LittleEndian.AppendUint32(b, number)
	b = binary.LittleEndian.AppendUint32(b, 0) // flags, none yet
	return binary.LittleEndian.AppendUint32(b, sum(b[at:]))
}

func checkPackHeader(b []byte, number uint32) error {
	if len(b) < headerSize || string(b[:8]) != packMagic {
		return errors.New("no pack")
	}
	if sum(b[:20]) != binary.LittleEndian.Uint32(b[20:]) {
		return errors.New("pack header: checksum differs")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != packVersion {
		return fmt.Errorf("pack of version %d: %w", v, ErrVersion)
	}
	if n := binary.LittleEndian.Uint32(b[12:]); n != number {
		return fmt.Errorf("holds pack %d: files were swapped or renamed", n)
	}
	if f := binary.LittleEndian.Uint32(b[16:]); f != 0 {
		return fmt.Errorf("pack with flags %#x: %w", f, ErrVersion)
	}
	return nil
}

// packSeal distinguishes a sealed pack from every other.
type packSeal struct {
	Number    uint32 `json:"number"`
	Size      int64  `json:"size"` // bytes
	FooterSum uint32 `json:"footer_crc32c"`
	Records   int64  `json:"records"`

	footerOff, footerLen int64
}

func appendTrailer(b []byte, s packSeal) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.footerOff))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.footerLen))
	b = binary.LittleEndian.AppendUint32(b, s.FooterSum)
	b = binary.LittleEndian.AppendUint32(b, s.Number)
	b = binary.LittleEndian.AppendUint32(b, sum(b[at:]))
	return append(b, trailerMagic...)
}

// corruptAt makes the error about a place in a pack. An I/O error is not
// corruption and stays what it is, with the place in front.
func corruptAt(number uint32, off int64, path string, cause error) error {
	switch {
	case cause == nil:
		return nil
	case errors.Is(cause, ErrCorrupt), errors.Is(cause, ErrVersion):
		return cause
	case errors.Is(cause, io.EOF), errors.Is(cause, io.ErrUnexpectedEOF):
		cause = errShort
	case isIOError(cause):
		return fmt.Errorf("%s, offset %d: %w", packName(number), off, cause)
	}
	return &CorruptError{Pack: number, Offset: off, Path: path, Cause: cause}
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
func readSeal(f vfs.File, number uint32) (packSeal, error) {
	s := packSeal{Number: number}
	var err error
	if s.Size, err = f.Size(); err != nil {
		return s, fmt.Errorf("%s: %w", packName(number), err)
	}
	if s.Size < headerSize+trailerSize {
		return s, corruptAt(number, s.Size, "", errShort)
	}
	var b [max(headerSize, trailerSize)]byte
	if err = readFull(f, b[:headerSize], 0); err == nil {
		err = checkPackHeader(b[:headerSize], number)
	}
	if err != nil {
		return s, corruptAt(number, 0, "", err)
	}
	at := s.Size - trailerSize
	if err = readFull(f, b[:trailerSize], at); err != nil {
		return s, corruptAt(number, at, "", err)
	}
	switch {
	case string(b[28:36]) != trailerMagic:
		return s, corruptAt(number, at, "", errors.New("no trailer: the pack is truncated or overwritten"))
	case sum(b[:24]) != binary.LittleEndian.Uint32(b[24:]):
		return s, corruptAt(number, at, "", errors.New("trailer: checksum differs"))
	}
	off, length := binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:])
	s.FooterSum = binary.LittleEndian.Uint32(b[16:])
	if off < headerSize || off > uint64(at) || length != uint64(at)-off || length > maxFooter ||
		binary.LittleEndian.Uint32(b[20:]) != number {
		return s, corruptAt(number, at, "", fmt.Errorf("trailer names a footer of %d bytes at %d", length, off))
	}
	s.footerOff, s.footerLen = int64(off), int64(length)
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
func readFooter(f vfs.File, number uint32) (packSeal, []described, error) {
	s, err := readSeal(f, number)
	if err != nil {
		return s, nil, err
	}
	footer := make([]byte, s.footerLen)
	if err = readFull(f, footer, s.footerOff); err == nil && sum(footer) != s.FooterSum {
		err = errors.New("footer: checksum differs")
	}
	if err != nil {
		return s, nil, corruptAt(number, s.footerOff, "", err)
	}
	records, err := parseFooter(footer, s)
	if err != nil {
		return s, nil, corruptAt(number, s.footerOff, "", fmt.Errorf("footer: %w", err))
	}
	s.Records = int64(len(records))
	return s, records, nil
}

// eachSealed calls f with each record of a sealed pack, as the footer describes it. The
// data is not read.
func eachSealed(file vfs.File, number uint32, f func(scanned) error) (packSeal, error) {
	seal, records, err := readFooter(file, number)
	for _, r := range records {
		samples, err := decodeRecord(r.meta, r.at)
		if err != nil {
			return seal, corruptAt(number, r.metaOff, "", err)
		}
		if err := f(scanned{off: r.off, end: r.at.base + r.at.size, at: r.at, meta: r.meta, samples: samples}); err != nil {
			return seal, err
		}
	}
	return seal, err
}

// parseFooter reads a footer. Its records cover the pack without gap.
func parseFooter(footer []byte, s packSeal) ([]described, error) {
	d := decoder{b: footer}
	n := d.count("number of records", maxFooter, 3+minMeta)
	records := make([]described, 0, n)
	end := int64(headerSize)
	for range n {
		r := described{off: int64(d.uvarint("offset of a record", maxLen))}
		r.at.pack = s.Number
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
	if end != s.footerOff {
		return nil, fmt.Errorf("records end at %d, the footer begins at %d", end, s.footerOff)
	}
	return records, nil
}

// listPacks returns the numbers of the packs in a directory, sealed ones and
// unfinished ones, in ascending order. Other names are not ours and are ignored.
func listPacks(fs vfs.FS, dir string) (sealed, unfinished []uint32, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		whole, isPart := strings.CutSuffix(name, partSuffix)
		n, err := strconv.ParseUint(strings.TrimSuffix(whole, ".pack"), 10, 32)
		if err != nil || n == 0 || packName(uint32(n)) != whole {
			continue
		}
		if isPart {
			unfinished = append(unfinished, uint32(n))
		} else {
			sealed = append(sealed, uint32(n))
		}
	}
	slices.Sort(sealed)
	slices.Sort(unfinished)
	return sealed, unfinished, nil
}
