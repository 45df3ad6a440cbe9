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
	case "bfe":
		return alu{f3: func(a, b, c uint64) uint64 { return extract(a, b&255, c&255, size, sgn) }, types: []string{typ, "u32", "u32"}}, plain
	case "bmsk":
		clamp := slices.Contains(mods, "clamp")
		return two(typ, func(a, b uint64) uint64 {
			if !clamp {
				a, b = a&31, b&31
			}
			if a >= 32 {
				return 0
			}
			return (1<<min(b, 32) - 1) << a & mask
		}), len(mods) == 1
	case "prmt":
		return permute(""), plain && typ == "b32"
	case "fns":
		return alu{f3: nthSet, types: []string{"b32", "b32", "s32"}}, plain
	}
	return alu{}, false
}

// extract is bfe: n bits from bit at on; above the register there are signs.
func extract(a, at, n uint64, size int, sgn bool) uint64 {
	width := uint64(8 * size)
	if n == 0 {
		return 0
	}
	sign := uint64(0)
	if sgn {
		sign = a >> min(at+n-1, width-1) & 1
	}
	v := uint64(0)
	if at < width {
		v = a >> at
	}
	have := uint64(0) // bits that come from a
	if at < width {
		have = min(n, width-at)
	}
	if have < 64 {
		v &= 1<<have - 1
		if sign != 0 {
			v |= ^uint64(0) << have
		}
	}
	return v & sizeMask(size)
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

// permute is prmt with a mode, or without one.
func permute(mode string) alu {
	sel := func(a, b, c uint64) uint64 {
		v, r := b<<32|a, uint64(0)
		for i := 0; i < 4; i++ {
			s := c >> (4 * i)
			x := v >> (8 * (s & 7)) & 255
			if s&8 != 0 {
				x = -(x >> 7) & 255
			}
			r |= x << (8 * i)
		}
		return r
	}
	if mode == "" {
		return three("b32", sel)
	}
	// selections for c = 0 to 3, lowest byte in the lowest digit
	table := map[string][4]uint64{
		"f4e":  {0x3210, 0x4321, 0x5432, 0x6543},
		"b4e":  {0x5670, 0x6701, 0x7012, 0x0123},
		"rc8":  {0x0000, 0x1111, 0x2222, 0x3333},
		"ecl":  {0x3210, 0x3211, 0x3222, 0x3333},
		"ecr":  {0x0000, 0x1110, 0x2210, 0x3210},
		"rc16": {0x1010, 0x3232, 0x1010, 0x3232},
	}
	t, ok := table[mode]
	if !ok {
		return alu{}
	}
	return three("b32", func(a, b, c uint64) uint64 { return sel(a, b, t[c&3]) })
}

// nthSet is fns: the place of the n-th set bit from base on, upwards for n > 0, downwards for n < 0.
func nthSet(m, base, n uint64) uint64 {
	k := int32(n)
	switch {
	case base > 31:
	case k == 0:
		if m>>base&1 != 0 {
			return base
		}
	case k > 0:
		for i := int(base); i < 32; i++ {
			if m>>i&1 != 0 {
				if k--; k == 0 {
					return uint64(i)
				}
			}
		}
	default:
		for i := int(base); i >= 0; i-- {
			if m>>i&1 != 0 {
				if k++; k == 0 {
					return uint64(i)
				}
			}
		}
	}
	return 1<<32 - 1
}

// logic3 is lop3 with its table of truth.
func logic3(table uint64) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		var r uint64
		for i := uint64(0); i < 8; i++ {
			if table>>i&1 != 0 {
				x, y, z := a, b, c
				if i&4 == 0 {
					x = ^x
				}
				if i&2 == 0 {
					y = ^y
				}
				if i&1 == 0 {
					z = ^z
				}
				r |= x & y & z
			}
		}
		return r & (1<<32 - 1)
	}
}

// dot is dp4a; of dp2a the halves of a go with the low or the high bytes of b.
func dot(aSigned, bSigned bool, size int, shift uint) func(a, b, c uint64) uint64 {
	get := func(v uint64, size int, sgn bool) int64 {
		if sgn {
			return signed(v, size)
		}
		return int64(v & sizeMask(size))
	}
	return func(a, b, c uint64) uint64 {
		sum := int64(c)
		b >>= shift
		for i := 0; i < 4/size; i++ {
			sum += get(a>>(8*size*i), size, aSigned) * get(b>>(8*i), 1, bSigned)
		}
		return uint64(uint32(sum))
	}
}
