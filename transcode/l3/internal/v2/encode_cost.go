package v2

import (
	"encoding/binary"
	"math/bits"
)

// laneBlocks are four blocks of 8 steps: those of all lanes. Step s of lane r is at
// r*pitch + s, so that 8 steps of a lane are one word.
type laneBlocks struct {
	lanes []byte
	pitch int
}

// load reads the block of lanes 8b to 8b+7: one word for each lane.
func (b laneBlocks) load(group int) (words [blockSteps]uint64) {
	at := b.lanes[blockSteps*group*b.pitch:]
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(at)
		if i+1 < len(words) {
			at = at[b.pitch:]
		}
	}
	return words
}

const (
	ones  = 0x0101010101010101
	low7  = 0x7f * ones
	high1 = 0x80 * ones
)

// cost chooses the codes of all blocks and adds up what they take.
func (w *Workspace) cost(c *candidate) {
	for _, p := range c.parts[:w.depth/8] {
		if encodeAccelerated {
			c.bits += w.costAVX2(p)
			continue
		}
		for g := range p.codes {
			p.codes[g] = 0
			at := w.blocks(p, g)
			for b := range lanes / blockSteps {
				words := at.load(b)
				code, bits := chooseCode(&words, w.rice)
				p.codes[g] |= uint16(code) << (4 * b)
				c.bits += bits
			}
		}
	}
}

// costAVX2 is the same for one part.
func (w *Workspace) costAVX2(p *coded) int {
	at := w.blocks(p, 0)
	if w.rice {
		return denseCostsAVX2(&p.codes[0], &at.lanes[0], at.pitch, w.groups)
	}
	return fastCostsAVX2(&p.codes[0], &at.lanes[0], at.pitch, w.groups)
}

// chooseCode returns the code of a block that takes the fewest bits: of equals the Rice
// code with the fewest raw bits, and raw samples last.
func chooseCode(words *[blockSteps]uint64, rice bool) (code, cost int) {
	var all uint64
	for _, v := range words {
		all |= v
	}
	all |= all >> 32
	all |= all >> 16
	all |= all >> 8
	code = bits.Len8(uint8(all))
	cost = 64 * code
	if !rice {
		return code, cost
	}
	// From the last one down, so that of equals the first one is kept.
	for k := codes - codeRice - 1; k >= 0; k-- {
		if n, quotients := riceCost(words, k); n <= cost && quotients <= maxQuotients {
			code, cost = codeRice+k, n
		}
	}
	return code, cost
}

// riceCost is what a Rice code of k raw bits takes, and how many samples have a
// quotient that is not 0. A quotient q takes q+1 bits, or all planes and 8-k bits.
func riceCost(words *[blockSteps]uint64, k int) (cost, quotients int) {
	var sum uint64 // of quotients that are no escapes, below 8 each
	cost = 64 * (k + 1)
	for _, v := range words {
		q := quotient(v, k)
		escapes := atLeast(q, planes)
		sum += q &^ (escapes >> 7 * 0xff)
		cost += bits.OnesCount64(escapes) * (planes - 1 + 8 - k)
		quotients += bits.OnesCount64(atLeast(q, 1))
	}
	sum = sum&0x00ff00ff00ff00ff + sum>>8&0x00ff00ff00ff00ff
	return cost + int(sum*0x0001000100010001>>48), quotients
}

// quotient shifts 8 bytes right.
func quotient(v uint64, k int) uint64 { return v >> k & (0xff >> k * ones) }

// atLeast has the highest bit of each byte that is n or more; n is 1 to 128.
func atLeast(v uint64, n int) uint64 {
	return (v&low7 + uint64(128-n)*ones | v) & high1
}
