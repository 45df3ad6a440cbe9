package v1

import "math/bits"

// predict guesses the samples of a row from those of the row above, which begins one to
// the left and ends one to the right of it. For each, let a be the sample above to the
// left, b the one above, and c the one above to the right; 0 where there is none. With
// pa = |c-b|, pb = |a+c-2b| and pc = |a-b|,
//
//   - if a is 0, it is b if pb ≤ pc, and otherwise c;
//   - else if c is 0, it is a if pa ≤ pb, and otherwise b;
//   - else it is a if pa ≤ pb and pa ≤ pc, else b if pa ≤ pc, else c.
//
// The zero tests, which a dark sample meets too, and the last comparison, where the
// paper has pb, are those of the authors' encoder and decoder, and so of the format.
//
// Which sample it is cannot be foreseen: branches would take most of the time.
func predict(dst, above []byte) {
	a, b := int(above[0]), int(above[1])
	above = above[2:]
	above = above[:len(dst)]
	pc := abs(a - b)
	for i := range dst {
		c := int(above[i])
		pa, pb := abs(c-b), abs(a+c-2*b)
		ab := choose(notAbove(pa, pb), a, b)
		usual := choose(notAbove(pa, pc)|notAbove(c, 0), ab, c)
		dst[i] = byte(choose(notAbove(a, 0), choose(notAbove(pb, pc), b, c), usual))
		a, b, pc = b, c, pa
	}
}

// notAbove has all bits set if v ≤ limit, and none otherwise.
func notAbove(v, limit int) int { return (v - limit - 1) >> (bits.UintSize - 1) }

// choose returns a where all bits of mask are set, and b where none is.
func choose(mask, a, b int) int { return b ^ (a^b)&mask }

func abs(v int) int {
	sign := v >> (bits.UintSize - 1)
	return (v ^ sign) - sign
}
