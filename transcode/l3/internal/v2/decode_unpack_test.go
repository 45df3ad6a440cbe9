package v2

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestUnpack unpacks units of random codes from random bits, which no encoder would
// write, in all forms. They have to agree on what is damaged, and on all else.
func TestUnpack(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	const size = 1 << 14
	src := make([]byte, size+overReadTest)
	good := 0
	for round := range 6000 {
		// Few bits set in streams make few escapes; many make all kinds of damage. Raw parts
		// with more than 7 of 8 bits set have too many quotients.
		streamBits, rawBits := rng.IntN(8), rng.IntN(4)
		for i := 0; i < len(src); i += 8 {
			v := rng.Uint64()
			for range streamBits {
				v &= rng.Uint64()
			}
			for range rawBits {
				if i < size/2 {
					v |= rng.Uint64()
				}
			}
			binary.LittleEndian.PutUint64(src[i:], v)
		}
		codes := make([]byte, 2*(1+rng.IntN(maxWords)))
		for i := range codes {
			codes[i] = byte(rng.Uint32())
			if round%4 == 0 {
				// Where there are many raw bits, quotients can be too large.
				codes[i] |= 0xee
			}
		}
		var start Scratch
		start.rice = true
		for i := range start.pos {
			start.pos[i] = uint64(4*size + rng.IntN(2*size))
			start.end[i] = 8 * size
		}
		if rng.IntN(2) == 0 {
			start.end[streams-1] = start.pos[streams-1] + uint64(rng.IntN(100))
		}
		start.raw = rng.IntN(size / 4)
		var want Scratch
		for i, form := range decodeForms {
			form.Use()
			s := start
			s.z = make([]byte, maxWords*columnsLen)
			ok := s.unpack(src, codes)
			switch {
			case i == 0:
				want = s
				if !ok {
					want.z = nil
				} else {
					good++
				}
			case ok != (want.z != nil):
				t.Fatalf("round %d: %s returns %v, %s does not", round, form.Name, ok, decodeForms[0].Name)
			case ok && (s.pos != want.pos || s.raw != want.raw || !bytes.Equal(s.z, want.z)):
				t.Fatalf("round %d: %s and %s differ", round, form.Name, decodeForms[0].Name)
			}
		}
	}
	if good < 500 || good > 5500 {
		t.Errorf("%d of 6000 units are not damaged: not enough of both kinds", good)
	}
}

// overReadTest is more than any form reads beyond where streams end.
const overReadTest = 1024

// TestSumCodes compares with the definition.
func TestSumCodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for range 2000 {
		codes := make([]byte, rng.IntN(40))
		units, rice := 0, false
		limit := 1 + rng.Uint32N(16)
		for i := range codes {
			low, high := rng.Uint32N(limit), rng.Uint32N(limit)
			codes[i] = byte(low | high<<4)
			units += int(rawLen[low]) + int(rawLen[high])
			rice = rice || low >= codeRice || high >= codeRice
		}
		if gotUnits, gotRice := sumCodes(codes); gotUnits != units || gotRice != rice {
			t.Fatalf("%x: %d, %v, want %d, %v", codes, gotUnits, gotRice, units, rice)
		}
	}
}
