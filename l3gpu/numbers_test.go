package l3gpu

import (
	"math"
	"testing"
)

// halfValue is what a number of 16 bits means.
func halfValue(h uint16) float64 {
	e, m := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(1024+m, e-25)
	switch e {
	case 0:
		v = math.Ldexp(m, -24)
	case 31:
		v = math.Inf(1)
	}
	if h&0x8000 != 0 {
		v = -v
	}
	return v
}

// TestHalf compares with a search among all numbers: each one is itself, what lies
// between two is the nearer one, and the middle the even one.
func TestHalf(t *testing.T) {
	for h := uint16(0); h < 0x7c00; h++ {
		low, high := halfValue(h), halfValue(h+1)
		if h+1 == 0x7c00 {
			high = 65536
		}
		middle := float32((low + high) / 2)
		even := h + h&1
		for _, sign := range []uint16{0, 0x8000} {
			s := float32(1)
			if sign != 0 {
				s = -1
			}
			for _, c := range []struct {
				f    float32
				want uint16
			}{
				{float32(low), h}, {middle, even},
				{math.Nextafter32(middle, 0), h}, {math.Nextafter32(middle, math.MaxFloat32), h + 1},
			} {
				if got := half(s * c.f); got != sign|c.want {
					t.Fatalf("%g is %04x, want %04x", s*c.f, got, sign|c.want)
				}
			}
		}
	}
	for f, want := range map[float32]uint16{math.MaxFloat32: 0x7c00, float32(math.Inf(-1)): 0xfc00, 0: 0} {
		if got := half(f); got != want {
			t.Errorf("%g is %04x, want %04x", f, got, want)
		}
	}
	if half(float32(math.NaN())) != 0x7fff {
		t.Error("not a number")
	}
}
