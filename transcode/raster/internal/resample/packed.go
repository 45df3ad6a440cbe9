package resample

// packed is how kernels in assembly want weights: an entry for each position, and a few
// of zeros before the first and after the last one, since a kernel makes several positions.
//
// An entry is the source position of the first tap, and then, for each two taps, their low
// and their high parts: 16 bits each, those of the first tap below. Taps that fill up an
// entry weigh nothing.
type packed struct {
	words []uint32 // nil: these weights are left to the portable form
	quads int      // groups of four taps in an entry
	reach int      // the source position behind the last one that is read
}

const (
	// positions is how many of them a kernel of the horizontal pass makes at a time: of
	// mostRows rows of one channel, or of fewRows rows of more.
	positions         = 4
	mostRows, fewRows = 8, 4
	// mostPacked is the largest number of taps: beyond it nearly all of the time goes to
	// multiplications that the portable form does as well.
	mostPacked = 4096
	// mostHigh is what the high parts of two taps may be together, in magnitude.
	mostHigh = 128
)

// entry is the number of words for a position.
func (p *packed) entry() int { return 1 + 4*p.quads }

// at is the entry of a position of the result.
func (p *packed) at(i int) *uint32 { return &p.words[(positions-1+i)*p.entry()] }

func pack(w *weights) packed {
	if w.most == 0 || w.most > mostPacked {
		return packed{}
	}
	p := packed{quads: (w.most + 3) / 4}
	p.words = make([]uint32, (w.out+2*(positions-1))*p.entry())
	for i := range w.out {
		e := p.words[(positions-1+i)*p.entry():][:p.entry()]
		e[0] = uint32(w.first[i])
		p.reach = max(p.reach, int(w.first[i])+4*p.quads)
		together := int32(0)
		for j, k := range w.of(i) {
			low := int32(int16(k))
			high := (k - low) >> 16
			if j%2 == 0 {
				together = 0
			}
			together += max(high, -high)
			if together > mostHigh || high == mostHigh {
				return packed{}
			}
			shift := 16 * (j % 2)
			e[1+j&^1] |= uint32(uint16(low)) << shift
			e[2+j&^1] |= uint32(uint16(high)) << shift
		}
	}
	return p
}
