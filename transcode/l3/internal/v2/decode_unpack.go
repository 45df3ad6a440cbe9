package v2

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/pipefs/pipefs/transcode"
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

// codedChannel is the order of channels in a patch: where channel c of the picture is.
func codedChannel(c, samples int) int {
	if samples >= 3 && c < 2 {
		return 1 - c
	}
	return c
}

// placeRows copies the rows of a band to the target, the first one to row y.
func (s *Scratch) placeRows(dst transcode.Target, y, rows int) {
	for r := range rows {
		var row [maxChannels][]byte
		for c := range s.coded {
			row[c] = s.rowOf(c, r)
		}
		if s.wide {
			s.placeWide(dst, y+r, &row)
			continue
		}
		if s.colour != colourNone {
			row[1], row[2] = s.uncolour(row[0], row[1], row[2])
		}
		for c := range s.samples {
			place(dst.Pix, dst.At(0, y+r, c), dst.Pixel, row[codedChannel(c, s.samples)])
		}
	}
}

// place copies a row of bytes to every step-th byte from at on.
func place(pix []byte, at, step int, row []byte) {
	if step == 1 {
		copy(pix[at:], row)
		return
	}
	for _, v := range row {
		pix[at] = v
		at += step
	}
}

// uncolour returns red and blue. It does not change its arguments: the next band is
// predicted from them.
func (s *Scratch) uncolour(g, r, b []byte) (red, blue []byte) {
	red, blue = s.temp[:len(g)], s.temp[len(g):2*len(g)]
	r, b = r[:len(g)], b[:len(g)]
	for x, g := range g {
		v := r[x] + g - 128
		red[x] = v
		if s.colour == colourAvg {
			g = byte((int(v) + int(g) + 1) >> 1)
		}
		blue[x] = b[x] + g - 128
	}
	return red, blue
}

// placeWide is for a row of samples of 16 bits.
func (s *Scratch) placeWide(dst transcode.Target, y int, row *[maxChannels][]byte) {
	c := 0
	if s.colour != colourNone {
		s.placeColoured(dst, y, row)
		c = 3
	}
	for ; c < s.samples; c++ {
		i := 2 * codedChannel(c, s.samples)
		at, low, high := dst.At(0, y, c), row[i], row[i+1]
		high = high[:len(low)]
		for x, v := range low {
			binary.LittleEndian.PutUint16(dst.Pix[at:], uint16(v)|uint16(high[x])<<8)
			at += dst.Pixel
		}
	}
}

// placeColoured is for the channels that have been transformed.
func (s *Scratch) placeColoured(dst transcode.Target, y int, row *[maxChannels][]byte) {
	const half = 1 << 15
	gLow := row[0]
	n := len(gLow)
	gHigh, rLow, rHigh, bLow, bHigh := row[1][:n], row[2][:n], row[3][:n], row[4][:n], row[5][:n]
	at := dst.At(0, y, 0)
	for x, v := range gLow {
		g := uint16(v) | uint16(gHigh[x])<<8
		r := uint16(rLow[x]) | uint16(rHigh[x])<<8
		b := uint16(bLow[x]) | uint16(bHigh[x])<<8
		r += g - half
		if s.colour == colourAvg {
			b += uint16((uint32(r)+uint32(g)+1)>>1) - half
		} else {
			b += g - half
		}
		binary.LittleEndian.PutUint16(dst.Pix[at:], r)
		binary.LittleEndian.PutUint16(dst.Pix[at+dst.Channel:], g)
		binary.LittleEndian.PutUint16(dst.Pix[at+2*dst.Channel:], b)
		at += dst.Pixel
	}
}
