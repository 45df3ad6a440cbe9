package kernel

import (
	"math/rand/v2"
	"testing"
)

// randomTables has entries of every kind; they belong to no code.
func randomTables(rng *rand.Rand) (*Table, *Lengths) {
	t, l := new(Table), new(Lengths)
	rare := 1 + rng.IntN(40) // how rare symbols are that end the block, or are not in the table
	for i := range t {
		length := 1 + rng.IntN(LookBits)
		switch rng.IntN(4 * rare) {
		case 0:
		case 1:
			t[i] = uint32(length) // end of block
		case 2:
			t[i] = uint32(length) | 0xF0<<8
		case 3:
			t[i] = uint32(length) | rng.Uint32N(256)<<8
		default:
			t[i] = uint32(length) | (1+rng.Uint32N(uint32(1+rng.IntN(16))))<<8 | (1+rng.Uint32N(1<<16-1))<<16
		}
		switch rng.IntN(2 * rare) {
		case 0:
		case 1:
			l[i] = LengthsEnd | uint16(1+rng.IntN(LookBits+15))
		default:
			l[i] = uint16(1+rng.IntN(LookBits+15)) | uint16(1+rng.IntN(1+rng.IntN(176)))<<8
		}
	}
	return t, l
}

// TestEntropy compares all forms of Coefficients and Skip, from any state on.
func TestEntropy(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	data := make([]byte, 640)
	stops := map[string]int{}
	for range 200 {
		table, lengths := randomTables(rng)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		for range 200 {
			start := Cursor{Pos: rng.IntN(256), N: rng.UintN(64), K: rng.Uint64N(64)}
			start.Acc = rng.Uint64() >> (63 - start.N) << (63 - start.N) // nothing below the bits that count
			if rng.IntN(4) == 0 {
				start.Entry = 1 + rng.Uint32N(16) | rng.Uint32N(256)<<8
			}
			type result struct {
				Cursor
				block   [64]int16
				stop    Stop
				skipped Cursor
				passed  Stop
			}
			var want result
			for i, form := range forms {
				form.Use()
				got := result{Cursor: start, skipped: start}
				got.stop = Coefficients(&got.Cursor, &got.block, data, table)
				got.passed = Skip(&got.skipped, data, lengths)
				// What is behind the bits that count means nothing.
				got.Acc &^= 1<<(64-got.N) - 1
				got.skipped.Acc &^= 1<<(64-got.skipped.N) - 1
				if got.stop == AtBad {
					got.Acc = 0
				}
				got.Entry = 0
				if i == 0 {
					want = got
					stops[[]string{"end", "long", "bad"}[got.stop]]++
					stops[[]string{"skipped", "long skip"}[got.passed]]++
				} else if got != want {
					t.Fatalf("from %+v: %s gives %+v, %s %+v", start, form.Name, got, forms[0].Name, want)
				}
			}
		}
	}
	for _, s := range []string{"end", "long", "bad", "skipped", "long skip"} {
		if stops[s] < 1000 {
			t.Errorf("%s came only %d times: %v", s, stops[s], stops)
		}
	}
}
