package jpeg

import "math/bits"

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
