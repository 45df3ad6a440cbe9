package ptxvm

import (
	"math/bits"
	"slices"
)

// bitOp returns the instruction that works on bits and bytes.
func bitOp(name string, mods []string, typ string) (alu, bool) {
	size, sgn := typeSize(typ), isSigned(typ)
	mask, width := sizeMask(size), uint64(8*size)
	plain := len(mods) == 0
	switch name {
	case "shl": // amounts above the width are the width
		return alu{f2: func(a, b uint64) uint64 {
			if b >= width {
				return 0
			}
			return a << b & mask
		}, types: []string{typ, "u32"}}, plain
	case "shr":
		f := func(a, b uint64) uint64 {
			if b >= width {
				return 0
			}
			return a >> b
		}
		if sgn {
			f = func(a, b uint64) uint64 { return uint64(signed(a, size)>>min(b, 63)) & mask }
		}
		return alu{f2: f, types: []string{typ, "u32"}}, plain
	case "shf":
		return funnel(mods), len(mods) == 2 && typ == "b32"
	case "popc":
		return one(typ, func(a uint64) uint64 { return uint64(bits.OnesCount64(a)) }), plain
	case "clz":
		return one(typ, func(a uint64) uint64 { return uint64(bits.LeadingZeros64(a)) - (64 - width) }), plain
	case "brev":
		return one(typ, func(a uint64) uint64 { return bits.Reverse64(a) >> (64 - width) }), plain
	case "bfind":
		amount := slices.Contains(mods, "shiftamt")
		return one(typ, func(a uint64) uint64 {
			if sgn && signed(a, size) < 0 {
				a = ^a & mask
			}
			if a == 0 {
				return 1<<32 - 1
			}
			if amount {
				return width - uint64(bits.Len64(a))
			}
			return uint64(bits.Len64(a)) - 1
		}), plain || amount && len(mods) == 1
	}
	return alu{}, false
}

// insert is bfi.
func insert(a, b, at, n uint64, size int) uint64 {
	width := uint64(8 * size)
	if at >= width || n == 0 {
		return b
	}
	field := ^uint64(0)
	if n < 64 {
		field = 1<<n - 1
	}
	field = field << at & sizeMask(size)
	return b&^field | a<<at&field
}

func funnel(mods []string) alu {
	left, wrap := slices.Contains(mods, "l"), slices.Contains(mods, "wrap")
	return three("b32", func(a, b, c uint64) uint64 {
		if wrap {
			c &= 31
		} else {
			c = min(c, 32)
		}
		v := b<<32 | a
		if left {
			return v << c >> 32
		}
		return v >> c & (1<<32 - 1)
	})
}

// permute is prmt: each digit of c selects a byte of b and a, or its sign.
func permute(a, b, c uint64) uint64 {
	v, r := b<<32|a, uint64(0)
	for i := range 4 {
		s := c >> (4 * i)
		x := v >> (8 * (s & 7)) & 255
		if s&8 != 0 {
			x = -(x >> 7) & 255
		}
		r |= x << (8 * i)
	}
	return r
}
