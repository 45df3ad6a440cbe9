package kernel

import "encoding/binary"

// LookBits is how many bits a table looks up at once. A longer table decodes more symbols
// together with their extra bits in one step, but takes longer to build for each picture.
const LookBits = 11

// Table decodes the AC coefficients of a sequential scan. An entry, indexed by the next
// LookBits bits, has in its low byte the number of bits to consume, 0 where the code is
// longer than LookBits or invalid. Where code and extra bits are both within LookBits,
// the next byte is how far the index of the coefficient moves (run + 1), and the high 16
// bits are its value, which is not 0. Otherwise the next byte is the symbol, the high bits
// are 0, and only the code is consumed.
type Table [1 << LookBits]uint32

// Cursor is where the decoding of a block is.
type Cursor struct {
	Pos     int    // of the next byte to load
	Acc     uint64 // the next N bits, from the top; below them rubbish, or later bits
	N       uint
	K       uint64 // index of the coefficient before, 0 to 63
	Nonzero uint64 // bit k: coefficient k is not 0
	Entry   uint32 // of the next code, where the table has none: its length, and the symbol; or 0
}

// Stop is a reason to return.
type Stop int

// Why Coefficients and Skip return.
const (
	AtEnd  Stop = iota // the block is whole
	AtLong             // the next code is not in the table: c.Entry can say what it is
	AtBad              // no block goes on like this
)

// Coefficients decodes AC coefficients into b, from that behind c.K on: T.81 F.2.2.2. data
// must have 256 bytes behind those that a block ends in.
func Coefficients(c *Cursor, b *[64]int16, data []byte, t *Table) Stop {
	if accelerated {
		return Stop(coefficientsBMI2(c, b, &data[0], t))
	}
	return coefficientsGo(c, b, data, t)
}

func coefficientsGo(c *Cursor, b *[64]int16, data []byte, t *Table) Stop {
	pos, acc, n, k, nonzero, entry := c.Pos, c.Acc, c.N, c.K, c.Nonzero, c.Entry
	stop := AtEnd
decode:
	for k < 63 {
		acc |= binary.BigEndian.Uint64(data[pos:]) >> (n & 63)
		pos += int((63 - n) >> 3)
		n |= 56
		if entry == 0 {
			entry = t[acc>>(64-LookBits)]
		}
		// Two codes that are in the table together with their value, and one of
		// any kind, take no more than 56 bits: there is no need to look in between.
		e := entry
		entry = 0
		for i := 0; int16(e>>16) != 0; i++ {
			if k += uint64(e >> 8 & 255); k > 63 {
				stop = AtBad
				break decode
			}
			b[k] = int16(e >> 16)
			nonzero |= 1 << (k & 63)
			acc <<= e & 63
			n -= uint(e & 63)
			if i == 2 || k == 63 {
				continue decode
			}
			e = t[acc>>(64-LookBits)]
		}
		symbol, length := e>>8, e&63
		if length == 0 {
			stop = AtLong
			break
		}
		acc <<= length
		n -= uint(length)
		if symbol == 0 {
			break // end of block
		}
		size := symbol & 15
		k += uint64(symbol>>4) + 1
		// A run of 16 zeros may end the block, which is never needed.
		if symbol == 0xF0 && k <= 63 {
			continue
		}
		if size == 0 || k > 63 {
			stop = AtBad
			break
		}
		b[k] = int16(Extend(uint32(acc>>32>>(32-size)), uint(size)))
		nonzero |= 1 << (k & 63)
		acc <<= size
		n -= uint(size)
	}
	*c = Cursor{pos, acc, n, k, nonzero, 0}
	return stop
}

// Extend turns the extra bits of a value into the value: T.81 F.2.2.1.
func Extend(extra uint32, size uint) int32 {
	// The first bit is as good as random, so there is no branch on it.
	v, unit := int32(extra), int32(1)<<(size&31)
	return v + (v-unit>>1)>>31&(1-unit)
}

// Lengths is a table to pass by AC coefficients that nobody needs. An entry, indexed by the
// next LookBits bits, stands for all symbols whose codes lie within them. Its low byte is
// how many bits they and their extra bits take, at most LookBits + 15, plus LengthsEnd where
// the last of them ends the block; the high byte is how far they move the index of the
// coefficient. It is 0 where there is no such symbol.
type Lengths [1 << LookBits]uint16

// LengthsEnd is the bit of an entry of Lengths whose last symbol ends the block.
const LengthsEnd = 1 << 7

// Skip passes by AC coefficients behind c.K, as far as the table knows them and all of its
// entry certainly belong to the block. After AtLong Coefficients can go on; c.Nonzero means
// nothing then. data is as for Coefficients.
func Skip(c *Cursor, data []byte, t *Lengths) Stop {
	if accelerated {
		return Stop(skipBMI2(c, &data[0], t))
	}
	return skipGo(c, data, t)
}

func skipGo(c *Cursor, data []byte, t *Lengths) Stop {
	pos, acc, n, k := c.Pos, c.Acc, c.N, c.K
	stop := AtLong
decode:
	for {
		acc |= binary.BigEndian.Uint64(data[pos:]) >> (n & 63)
		pos += int((63 - n) >> 3)
		n |= 56
		for range 2 {
			e := t[acc>>(64-LookBits)]
			to := k + uint64(e>>8)
			// Coefficient 63 ends a block: what follows it is of the next one.
			if e == 0 || to >= 63 {
				break decode
			}
			k = to
			acc <<= e & 63
			n -= uint(e & 63)
			if e&LengthsEnd != 0 {
				stop = AtEnd
				break decode
			}
		}
	}
	c.Pos, c.Acc, c.N, c.K = pos, acc, n, k
	return stop
}
