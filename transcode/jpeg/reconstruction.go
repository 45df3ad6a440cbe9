package jpeg

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// Reconstruction data say what it takes to make a file again from its transcoded scans. They
// are all of the file that is not in its coefficients: the segments in their
// order, the Huffman tables, restart intervals, the bits that fill up the last
// bytes of the entropy-coded data, blocks beyond the edges of the picture, and
// what comes after the end. Most of that is in the scans as well, or is the same
// for many files, so that some 60 bytes remain for an ordinary file.
//
//	byte      version, 1
//	uvarint   length of the file
//	4 bytes   CRC32C of the file, little-endian
//	pads      see pads.append
//	dummies   see appendDummies
//	uvarint   length of the skeleton
//	delta     the skeleton: the file without its entropy-coded data; see
//	          appendDelta
const reconstructionVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// trace is what is noted of a file's entropy-coded data while it is decoded.
type trace struct {
	scans []span
	pads  pads
	// interleaved components have blocks beyond the edges in the file.
	interleaved [maxComponents]bool
	// loose is set where there are bytes among the data that belong to nothing.
	loose bool
}

// span is the entropy-coded data of a scan, as offsets in the file.
type span struct{ start, end int }

// interval takes note of the bits after the last code of an interval that ends
// at byte end.
func (t *trace) interval(r *bitReader, end int) {
	if left := end*8 - (r.Pos*8 - int(r.N)); left >= 8 {
		t.loose = true
	} else {
		t.pads.add(r.data[max(end-1, 0)], left)
	}
}

// after takes note of what follows the last MCU of a scan: bytes that belong to
// nothing, and RST markers.
func (t *trace) after(bytes, markers int) {
	if bytes > 0 {
		t.loose = true
	}
	// The markers are no part of what can be made from coefficients.
	t.scans[len(t.scans)-1].end -= 2 * markers
}

// pads are the bits that fill up the last byte of each interval: by T.81
// F.1.2.3 all ones, but some programs write zeros, and a few write anything.
type pads struct {
	values     []byte
	ones, zero bool // no other one was seen
}

// add notes the low n bits of b.
func (p *pads) add(b byte, n int) {
	v := b & (1<<n - 1)
	p.ones = p.ones && v == 1<<n-1
	p.zero = p.zero && v == 0
	p.values = append(p.values, v)
}

const (
	padOnes = iota
	padZeros
	padList
)

// append writes the pads: byte 0 for ones, 1 for zeros, or 2, their number, and
// a byte for each interval of the file.
func (p *pads) append(b []byte) []byte {
	switch {
	case p.ones:
		return append(b, padOnes)
	case p.zero:
		return append(b, padZeros)
	}
	b = binary.AppendUvarint(append(b, padList), uint64(len(p.values)))
	return append(b, p.values...)
}

// read reads what append wrote.
func (p *pads) read(r *reconstructionReader) {
	*p = pads{}
	switch r.byte() {
	case padOnes:
		p.ones = true
	case padZeros:
		p.zero = true
	case padList:
		p.values = r.take(r.uvarint())
	default:
		r.failed = true
	}
}

// next returns what fills up the next interval.
func (p *pads) next() (v byte) {
	switch {
	case p.ones:
		return 0xFF
	case p.zero || len(p.values) == 0:
		return 0
	}
	v, p.values = p.values[0], p.values[1:]
	return v
}

// reconstruction returns the reconstruction data of src, whose coefficients are w.c and
// whose trace is t, given its transcoded form. It returns nil where it knows that there
// are none.
func (w *workspace) reconstruction(src, transcoded []byte, t *trace) []byte {
	if t.loose {
		return nil
	}
	b := []byte{reconstructionVersion}
	b = binary.AppendUvarint(b, uint64(len(src)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(src, castagnoli))
	b = t.pads.append(b)
	b = appendDummies(b, &w.c, t)
	skeleton := skeleton(src, t.scans)
	b = binary.AppendUvarint(b, uint64(len(skeleton)))
	dict, err := dictionary(transcoded, Limits{MaxSegments: len(transcoded)})
	if err != nil {
		return nil
	}
	whole := appendDelta(b, skeleton, dict)
	if len(skeleton) > mostSkeleton(whole, dict) {
		// It repeats itself, as padding after the end does: as it is, then.
		whole = appendLiteral(b, skeleton)
	}
	return whole
}

// mostSkeleton is how long a skeleton may be, in bytes, so that damaged data do
// not cost much memory. One says the same thing a few times at most.
func mostSkeleton(data, dict []byte) int { return len(data) + 16*len(dict) }

// skeleton returns src without the given parts.
func skeleton(src []byte, without []span) []byte {
	n := len(src)
	for _, s := range without {
		n -= s.end - s.start
	}
	out := make([]byte, 0, n)
	at := 0
	for _, s := range without {
		out = append(out, src[at:s.start]...)
		at = s.end
	}
	return append(out, src[at:]...)
}

// Restore makes the file again that was transcoded with Options.Reconstruct, from all
// of its scans and from the reconstruction data. Its result is that file byte for byte,
// which a checksum makes sure of. Data that are damaged, or belong to another file, are
// an error of kind transcode.ErrBad.
func Restore(transcoded, data []byte, lim Limits) ([]byte, error) {
	w := workspaces.Get().(*workspace)
	out, err := w.restore(transcoded, data, lim)
	w.release()
	return out, err
}

func (w *workspace) restore(transcoded, data []byte, lim Limits) ([]byte, error) {
	defer func() { w.c.Segments = nil }()
	// What the file was transcoded to has more scans and segments than itself.
	own := lim.orDefaults()
	own.MaxScans = max(own.MaxScans, 18)
	own.MaxSegments += 128
	if err := w.dec.decode(transcoded, own, &w.c); err != nil {
		return nil, err
	}
	u := reconstructionReader{b: data}
	if u.byte() != reconstructionVersion {
		return nil, unsupported(0, "reconstruction data of an unknown version")
	}
	size, sum := u.uvarint(), binary.LittleEndian.Uint32(append(u.take(4), 0, 0, 0, 0))
	r := rebuilder{e: &w.enc}
	r.pads.read(&u)
	readDummies(&u, &w.c)
	length := u.uvarint()
	dict, err := dictionary(transcoded, own)
	if err != nil {
		return nil, err
	}
	if u.failed || length > size || length > mostSkeleton(data, dict) {
		return nil, bad(0, "the reconstruction data are damaged")
	}
	if r.skeleton = readDelta(&u, length, dict); u.failed {
		return nil, bad(0, "the reconstruction data are damaged")
	}
	// Huffman tables that fit badly can make a file larger, but not this much.
	out, err := r.run(&w.dec, &w.c, lim, min(size, length+4*len(transcoded)))
	if err != nil {
		return nil, err
	}
	if len(out) != size || crc32.Checksum(out, castagnoli) != sum {
		return nil, bad(0, "the reconstruction data do not belong to this file: their result differs")
	}
	return out, nil
}

// reconstructionReader reads the parts of reconstruction data. What it reads after failed is set is
// zero.
type reconstructionReader struct {
	b      []byte
	failed bool
}

func (u *reconstructionReader) byte() byte {
	b := u.take(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

// take returns the next n bytes.
func (u *reconstructionReader) take(n int) []byte {
	if n < 0 || n > len(u.b) {
		u.failed, u.b = true, nil
		return nil
	}
	b := u.b[:n:n]
	u.b = u.b[n:]
	return b
}

// uvarint returns a number that fits into 31 bits.
func (u *reconstructionReader) uvarint() int {
	v, n := binary.Uvarint(u.b)
	if n <= 0 || v > 1<<31-1 {
		u.failed, u.b = true, nil
		return 0
	}
	u.b = u.b[n:]
	return int(v)
}

func (u *reconstructionReader) varint() int {
	v := u.uvarint()
	return v>>1 ^ -(v & 1)
}

func appendVarint(b []byte, v int) []byte {
	return binary.AppendUvarint(b, uint64(v<<1^v>>63))
}

// Dummy blocks lie beyond the edges of the picture and complete its MCUs. What
// they hold is never seen. libjpeg makes them flat and as bright as the block
// before, and so does this package; other programs continue the picture, and an
// reconstruction data have to hold what they wrote.

// eachDummy calls f for all dummy blocks of a component, row by row, with the
// index of the block and that of the one before it in its MCU.
func (p *Component) eachDummy(f func(at, before int)) {
	for y := range p.Rows {
		x := 0
		if y < p.High {
			x = p.Wide
		}
		for ; x < p.Stride; x++ {
			at := y*p.Stride + x
			if x%p.H > 0 {
				f(at, at-1)
			} else {
				// The first of its row in the MCU. It is not the first of the MCU,
				// which lies in the picture.
				f(at, at-p.Stride+p.H-1)
			}
		}
	}
}

// flat reports whether a dummy block is as libjpeg makes it.
func (p *Component) flat(at, before int) bool {
	return p.Nonzero[at] == 0 && p.Blocks[at][0] == p.Blocks[before][0]
}

// flatten makes all dummy blocks as libjpeg makes them.
func (p *Component) flatten() {
	p.eachDummy(func(at, before int) {
		p.Blocks[at], p.Nonzero[at] = Block{p.Blocks[before][0]}, 0
	})
}

// appendDummies writes the dummy blocks of a file: a byte with a bit for each
// component that has some that libjpeg would have made otherwise, then all
// dummies of these components, as eachDummy visits them. Each is a varint, the
// difference to the DC coefficient of the block before; a byte, the number of AC
// coefficients that are not zero; and for each of them a byte, its place, and a
// varint, its value.
func appendDummies(b []byte, c *Coefficients, t *trace) []byte {
	mask := len(b)
	b = append(b, 0)
	for i := range c.Components {
		p := &c.Components[i]
		if !t.interleaved[i] {
			continue
		}
		same := true
		p.eachDummy(func(at, before int) { same = same && p.flat(at, before) })
		if same {
			continue
		}
		b[mask] |= 1 << i
		p.eachDummy(func(at, before int) {
			block, set := &p.Blocks[at], p.Nonzero[at]
			b = appendVarint(b, int(block[0])-int(p.Blocks[before][0]))
			b = append(b, byte(bits.OnesCount64(set)))
			for ; set != 0; set &= set - 1 {
				k := bits.TrailingZeros64(set)
				b = appendVarint(append(b, byte(k)), int(block[k]))
			}
		})
	}
	return b
}

// readDummies reads what appendDummies wrote into c.
func readDummies(u *reconstructionReader, c *Coefficients) {
	mask := u.byte()
	for i := range c.Components {
		if mask>>i&1 == 0 {
			continue
		}
		p := &c.Components[i]
		p.eachDummy(func(at, before int) {
			block := &p.Blocks[at]
			*block = Block{int16(int(p.Blocks[before][0]) + u.varint())}
			p.Nonzero[at] = 0
			for range u.byte() & 63 {
				k := u.byte() & 63
				v := int16(u.varint())
				if v == 0 || k == 0 {
					u.failed = true
					continue
				}
				block[k] = v
				p.Nonzero[at] |= 1 << k
			}
		})
	}
}
