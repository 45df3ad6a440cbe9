package ptxvm

import (
	"math"
	"math/bits"
	"slices"
)

// An alu is what an arithmetic instruction does with one lane's values: one of f1, f2, f3, whose sources have the types.
// Sources come with zeros above their type; so must results go.
type alu struct {
	f1    func(a uint64) uint64
	f2    func(a, b uint64) uint64
	f3    func(a, b, c uint64) uint64
	types []string
	wide  bool // the result has twice the type's size
}

func one(t string, f func(a uint64) uint64) alu    { return alu{f1: f, types: []string{t}} }
func two(t string, f func(a, b uint64) uint64) alu { return alu{f2: f, types: []string{t, t}} }
func three(t string, f func(a, b, c uint64) uint64) alu {
	return alu{f3: f, types: []string{t, t, t}}
}

// signed returns the number in the low bytes of v.
func signed(v uint64, size int) int64 {
	sh := 64 - 8*size
	return int64(v<<sh) >> sh
}

func isSigned(typ string) bool { return typ[0] == 's' }
func isFloat(typ string) bool  { return typ[0] == 'f' }

// intOp returns the integer instruction of that name, modifiers and type.
func intOp(name string, mods []string, typ string) (alu, bool) {
	size, sgn := typeSize(typ), isSigned(typ)
	mask := sizeMask(size)
	if typ == "u16x2" || typ == "s16x2" {
		return pairOp(name, mods, typ)
	}
	plain := len(mods) == 0
	switch name {
	case "add", "sub":
		return addSub(name, typ), plain
	case "mul":
		return multiply(mods, typ)
	case "mad":
		m, ok := multiply(mods, typ)
		if !ok {
			return m, false
		}
		f, third := m.f2, typ
		if m.wide {
			mask = sizeMask(2 * size)
			third = wider[typ]
		}
		return alu{f3: func(a, b, c uint64) uint64 { return (f(a, b) + c) & mask }, types: []string{typ, typ, third}, wide: m.wide}, true
	case "div", "rem":
		return divide(name == "rem", typ), plain
	case "abs":
		return one(typ, func(a uint64) uint64 {
			if signed(a, size) < 0 {
				a = -a
			}
			return a & mask
		}), plain && sgn
	case "neg":
		return one(typ, func(a uint64) uint64 { return -a & mask }), plain
	case "min", "max":
		less := lessThan(typ)
		if name == "min" {
			return two(typ, func(a, b uint64) uint64 {
				if less(b, a) {
					return b
				}
				return a
			}), plain
		}
		return two(typ, func(a, b uint64) uint64 {
			if less(a, b) {
				return b
			}
			return a
		}), plain
	case "and":
		return two(typ, func(a, b uint64) uint64 { return a & b }), plain
	case "or":
		return two(typ, func(a, b uint64) uint64 { return a | b }), plain
	case "xor":
		return two(typ, func(a, b uint64) uint64 { return a ^ b }), plain
	case "not":
		return one(typ, func(a uint64) uint64 { return ^a & mask }), plain
	}
	return bitOp(name, mods, typ)
}

var wider = map[string]string{"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}

func addSub(name, typ string) alu {
	mask := sizeMask(typeSize(typ))
	switch {
	case name == "add" && mask == 1<<32-1:
		return two(typ, func(a, b uint64) uint64 { return uint64(uint32(a + b)) })
	case name == "add":
		return two(typ, func(a, b uint64) uint64 { return (a + b) & mask })
	}
	return two(typ, func(a, b uint64) uint64 { return (a - b) & mask })
}

// lessThan compares integers of a type.
func lessThan(typ string) func(a, b uint64) bool {
	size := typeSize(typ)
	if isSigned(typ) {
		return func(a, b uint64) bool { return signed(a, size) < signed(b, size) }
	}
	return func(a, b uint64) bool { return a < b }
}

func multiply(mods []string, typ string) (alu, bool) {
	size, sgn := typeSize(typ), isSigned(typ)
	mask := sizeMask(size)
	if len(mods) != 1 {
		return alu{}, false
	}
	switch {
	case mods[0] == "lo":
		return two(typ, func(a, b uint64) uint64 { return a * b & mask }), true
	case mods[0] == "wide" && size < 8:
		wmask := sizeMask(2 * size)
		f := func(a, b uint64) uint64 { return a * b }
		if sgn {
			f = func(a, b uint64) uint64 { return uint64(signed(a, size)*signed(b, size)) & wmask }
		}
		return alu{f2: f, types: []string{typ, typ}, wide: true}, true
	case mods[0] == "hi" && size < 8:
		if sgn {
			return two(typ, func(a, b uint64) uint64 { return uint64(signed(a, size)*signed(b, size)>>(8*size)) & mask }), true
		}
		return two(typ, func(a, b uint64) uint64 { return a * b >> (8 * size) }), true
	}
	return alu{}, false
}

// divide follows the hardware where PTX leaves the result open: the quotient by zero is all ones, the rest the dividend.
func divide(rem bool, typ string) alu {
	size, sgn := typeSize(typ), isSigned(typ)
	mask := sizeMask(size)
	return two(typ, func(a, b uint64) uint64 {
		if b == 0 {
			if rem {
				return a
			}
			return mask
		}
		if !sgn {
			if rem {
				return a % b
			}
			return a / b
		}
		x, y := signed(a, size), signed(b, size)
		if y == -1 { // of the smallest number too, which Go wraps as well
			if rem {
				return 0
			}
			return -a & mask
		}
		if rem {
			return uint64(x%y) & mask
		}
		return uint64(x/y) & mask
	})
}

// pairOp is for two numbers of 16 bits in a register.
func pairOp(name string, mods []string, typ string) (alu, bool) {
	half, ok := intOp(name, mods, typ[:3])
	if !ok || half.f2 == nil || half.wide {
		return alu{}, false
	}
	f := half.f2
	return two(typ, func(a, b uint64) uint64 {
		return f(a&0xffff, b&0xffff) | f(a>>16&0xffff, b>>16&0xffff)<<16
	}), true
}

// floatOp returns the instruction on float32 of that name. What is computed in float64 and rounded once more is exact:
// that has more than twice the digits.
func floatOp(name string, mods []string) (alu, bool) {
	number := func(v uint64) float64 { return float64(math.Float32frombits(uint32(v))) }
	bits := func(f float64) uint64 {
		if f != f {
			return 0x7fffffff
		}
		return uint64(math.Float32bits(float32(f)))
	}
	plain := len(mods) == 0 || len(mods) == 1 && mods[0] == "rn"
	switch name {
	case "add":
		return two("f32", func(a, b uint64) uint64 { return bits(number(a) + number(b)) }), plain
	case "sub":
		return two("f32", func(a, b uint64) uint64 { return bits(number(a) - number(b)) }), plain
	case "mul":
		return two("f32", func(a, b uint64) uint64 { return bits(number(a) * number(b)) }), plain
	}
	return alu{}, false
}

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
