package v2

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// unpackBlocks decodes the blocks of some code words to s.z. All other forms have to
// return the same. It returns false if the blocks are damaged.
func (s *Scratch) unpackBlocks(src, codes []byte) bool {
	if s.deposits == nil {
		s.deposits = deposits()
	}
	for i := 0; i < len(codes); i += 2 {
		word := int(binary.LittleEndian.Uint16(codes[i:]))
		for b := range 4 {
			// Up to the end of the block's last column.
			z := s.z[i/2*columnsLen+b*blockSteps:][:columnsLen-3*blockSteps]
			code := word >> (4 * b) & 15
			if code < codeRice {
				s.unpackRaw(z, src, uint(code))
				continue
			}
			ones := binary.LittleEndian.Uint64(src[s.raw:])
			s.raw += 8
			s.unpackRaw(z, src, uint(code-codeRice))
			if !s.unpackQuotients(z, src, uint(code-codeRice), ones) {
				return false
			}
		}
	}
	return true
}

// unpackRaw decodes 8 rows of 8 fields of w bits, each row to one column.
func (s *Scratch) unpackRaw(z, src []byte, w uint) {
	// The bits after the fields are cut off. Then the upper half of the fields moves to
	// the upper half of the word, and so on.
	all, half := uint64(1)<<(8*w)-1, uint64(1)<<(4*w)-1
	quarter := (uint64(1)<<(2*w) - 1) * 0x0000000100000001
	eighth := (uint64(1)<<w - 1) * 0x0001000100010001
	for j := range blockSteps {
		x := binary.LittleEndian.Uint64(src[s.raw:]) & all
		x = x&half | x&^half<<(32-4*w)
		x = x&quarter | x&^quarter<<(16-2*w)
		x = x&eighth | x&^eighth<<(8-w)
		binary.LittleEndian.PutUint64(z[j*lanes:], x)
		s.raw += int(w)
	}
}

// unpackQuotients adds the quotients of a block with k raw bits.
func (s *Scratch) unpackQuotients(z, src []byte, k uint, ones uint64) bool {
	if bits.OnesCount64(ones) > maxQuotients {
		return false
	}
	// Planes are like a thermometer: if one is set, all before it are. So these are the
	// bits of the number of set planes; the higher bits come from every second and every
	// fourth plane.
	var number [3]uint64
	plane := ones
	for i := range streams - 1 {
		number[0] ^= plane
		if i&1 == 1 {
			number[1] ^= plane
		}
		if i == 3 {
			number[2] = plane
		}
		if plane == 0 {
			break
		}
		// A stream that is too short is found at the end of the patch, where each position
		// has to be the stream's end. Until then nothing outside may be read.
		if s.pos[i] > s.end[i] {
			return false
		}
		window := load(src, s.pos[i])
		s.pos[i] += uint64(bits.OnesCount64(plane))
		plane = deposit(s.deposits, window, plane)
		if plane != 0 && (i+2)<<k > 255 {
			return false
		}
	}
	for j := range blockSteps {
		n := spread[byte(number[0]>>(8*j))] + spread[byte(number[1]>>(8*j))]<<1 + spread[byte(number[2]>>(8*j))]<<2
		p := z[j*lanes:][:8]
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)+n<<k)
	}
	return plane == 0 || s.unpackEscapes(z, src, k, plane)
}

// unpackEscapes replaces the quotients that have all planes.
func (s *Scratch) unpackEscapes(z, src []byte, k uint, plane uint64) bool {
	for ; plane != 0; plane &= plane - 1 {
		if s.pos[streams-1] > s.end[streams-1] {
			return false
		}
		q := byte(load(src, s.pos[streams-1])) & (255 >> k)
		s.pos[streams-1] += uint64(8 - k)
		if q < planes {
			return false
		}
		j := bits.TrailingZeros64(plane)
		z[at(j)] = z[at(j)]&(1<<k-1) | q<<k
	}
	return true
}

// deposit moves the lowest bits of x to where mask is set.
func deposit(table *[1 << 16]uint8, x, mask uint64) (out uint64) {
	for i := 0; i < 64; i += 8 {
		m := uint8(mask >> i)
		out |= uint64(table[int(m)<<8|int(uint8(x))]) << i
		x >>= bits.OnesCount8(m)
	}
	return out
}

// deposits returns the table of deposit for bytes, by mask and bits.
var deposits = sync.OnceValue(func() *[1 << 16]uint8 {
	var t [1 << 16]uint8
	for i := range t {
		x := i & 255
		for m := i >> 8; m != 0; m &= m - 1 {
			t[i] |= uint8(x&1) << bits.TrailingZeros(uint(m))
			x >>= 1
		}
	}
	return &t
})

// spread has a byte, 0 or 1, for each bit.
var spread = func() (t [256]uint64) {
	for i := range t {
		for j := range 8 {
			t[i] |= uint64(i>>j&1) << (8 * j)
		}
	}
	return t
}()

// at is where sample j of a block is in columns of all lanes.
func at(j int) int { return j/blockSteps*lanes + j%blockSteps }

// load returns at least 57 bits from bit pos on.
func load(src []byte, pos uint64) uint64 {
	return binary.LittleEndian.Uint64(src[pos/8:]) >> (pos % 8)
}

// columnsToRows moves the samples of a unit to the rows of a band whose first sample,
// that of lane 0, is decoded in step first.
func (s *Scratch) columnsToRows(step, first int) {
	for h := range 2 {
		for c := range s.coded {
			z := s.z[(h*s.coded+c)*columnsLen:][:columnsLen]
			for r := range lanes {
				row := s.rows[s.row(c, r)+step+h*blockSteps-r-first:][:blockSteps]
				for j := range row {
					row[j] = z[j*lanes+r]
				}
			}
		}
	}
}

// moveRows moves the beginning of the next band, which follows the rows of this one, to
// where they begin.
func (s *Scratch) moveRows() {
	for i := range s.coded * lanes {
		p := s.rows[s.row(0, i):][:s.band+overhang]
		copy(p, p[s.band:])
	}
}
