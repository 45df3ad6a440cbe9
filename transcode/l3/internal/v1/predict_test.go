package v1

import "testing"

// specified is predict as the format has it.
func specified(a, b, c int) int {
	distance := func(p, q int) int { return max(p-q, q-p) }
	pa, pb, pc := distance(c, b), distance(a+c, 2*b), distance(a, b)
	switch {
	case a == 0:
		if pb <= pc {
			return b
		}
		return c
	case c == 0:
		if pa <= pb {
			return a
		}
		return b
	case pa <= pb && pa <= pc:
		return a
	case pa <= pc:
		return b
	}
	return c
}

// TestPredict tries everything there is.
func TestPredict(t *testing.T) {
	for a := range 256 {
		for b := range 256 {
			for c := range 256 {
				var got [1]byte
				predict(got[:], []byte{byte(a), byte(b), byte(c)})
				if want := specified(a, b, c); int(got[0]) != want {
					t.Fatalf("%d from %d, %d, %d, want %d", got[0], a, b, c, want)
				}
			}
		}
	}
}
