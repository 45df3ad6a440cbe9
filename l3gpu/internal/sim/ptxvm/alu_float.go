package ptxvm

import (
	"math"
	"slices"
)

// A format is how numbers of a floating point type are stored. All but fma is computed in float64 and rounded once
// more, which is exact: float64 has more than twice the digits of the others.
type format struct {
	get func(v uint64) float64
	put func(f float64) uint64
}

var formats = map[string]format{
	"f64": {math.Float64frombits, math.Float64bits},
	"f32": {
		func(v uint64) float64 { return float64(math.Float32frombits(uint32(v))) },
		func(f float64) uint64 {
			if f != f {
				return 0x7fffffff
			}
			return uint64(math.Float32bits(float32(f)))
		},
	},
	"f16":  {func(v uint64) float64 { return small(v, 10, 5) }, func(f float64) uint64 { return toSmall(f, 10, 5) }},
	"bf16": {func(v uint64) float64 { return small(v, 7, 8) }, func(f float64) uint64 { return toSmall(f, 7, 8) }},
}

// small decodes a float of 16 bits.
func small(v uint64, frac, exp uint) float64 {
	s, e, m := v>>15&1, v>>frac&(1<<exp-1), v&(1<<frac-1)
	bias := 1<<(exp-1) - 1
	var f float64
	switch {
	case e == 1<<exp-1 && m != 0:
		f = math.NaN()
	case e == 1<<exp-1:
		f = math.Inf(1)
	case e == 0:
		f = math.Ldexp(float64(m), 1-bias-int(frac))
	default:
		f = math.Ldexp(float64(m|1<<frac), int(e)-bias-int(frac))
	}
	if s != 0 {
		f = -f
	}
	return f
}

// toSmall encodes one, to the nearest, ties to even.
func toSmall(f float64, frac, exp uint) uint64 {
	bias := 1<<(exp-1) - 1
	inf := uint64(1<<exp-1) << frac
	s := math.Float64bits(f) >> 63 << 15
	f = math.Abs(f)
	if f != f {
		return 0x7fff
	}
	e := max(math.Ilogb(f), 1-bias)
	if f == 0 || e > bias {
		if f == 0 {
			return s
		}
		return s | inf
	}
	m := uint64(math.RoundToEven(math.Ldexp(f, int(frac)-e))) // with the leading one, unless subnormal
	v := uint64(e+bias-1)<<frac + m
	return s | min(v, inf)
}

// floatOp returns the floating point instruction of that name, modifiers and type.
func floatOp(name string, mods []string, typ string) (alu, bool) {
	if typ == "f16x2" || typ == "bf16x2" {
		return halvesOp(name, mods, typ)
	}
	fm, ok := formats[typ]
	if !ok {
		return alu{}, false
	}
	sat, ftz := slices.Contains(mods, "sat"), slices.Contains(mods, "ftz")
	for _, m := range mods {
		if !slices.Contains([]string{"rn", "sat", "ftz", "approx", "full", "NaN"}, m) {
			return alu{}, false
		}
	}
	tiny := 0x1p-126
	flush := func(f float64) float64 {
		if ftz && f > -tiny && f < tiny {
			return math.Copysign(0, f)
		}
		return f
	}
	get := func(v uint64) float64 { return flush(fm.get(v)) }
	put := func(f float64) uint64 {
		if sat {
			f = min(max(f, 0), 1)
			if f != f {
				f = 0
			}
		}
		return fm.put(flush(f))
	}
	if f := float1(name); f != nil {
		return one(typ, func(a uint64) uint64 { return put(f(get(a))) }), true
	}
	if f := float2(name); f != nil {
		return two(typ, func(a, b uint64) uint64 { return put(f(get(a), get(b))) }), true
	}
	if name == "fma" || name == "mad" {
		if typ == "f64" {
			return three(typ, func(a, b, c uint64) uint64 { return put(math.FMA(get(a), get(b), get(c))) }), true
		}
		return three(typ, func(a, b, c uint64) uint64 { return put(fmaOdd(get(a), get(b), get(c))) }), true
	}
	return alu{}, false
}

func float1(name string) func(a float64) float64 {
	switch name {
	case "neg":
		return func(a float64) float64 { return -a }
	case "abs":
		return math.Abs
	case "sqrt":
		return math.Sqrt
	case "rcp":
		return func(a float64) float64 { return 1 / a }
	case "rsqrt":
		return func(a float64) float64 { return 1 / math.Sqrt(a) }
	case "ex2":
		return math.Exp2
	case "lg2":
		return math.Log2
	case "sin":
		return math.Sin
	case "cos":
		return math.Cos
	}
	return nil
}

func float2(name string) func(a, b float64) float64 {
	switch name {
	case "add":
		return func(a, b float64) float64 { return a + b }
	case "sub":
		return func(a, b float64) float64 { return a - b }
	case "mul":
		return func(a, b float64) float64 { return a * b }
	case "div":
		return func(a, b float64) float64 { return a / b }
	case "copysign":
		return func(a, b float64) float64 { return math.Copysign(b, a) }
	case "min", "max": // a number wins over NaN
		return func(a, b float64) float64 {
			switch {
			case a != a:
				return b
			case b != b:
				return a
			case name == "min":
				return min(a, b)
			}
			return max(a, b)
		}
	}
	return nil
}

// fmaOdd returns a×b+c rounded to odd, for numbers whose product is exact: then rounding once more is right.
func fmaOdd(a, b, c float64) float64 {
	p := a * b
	s := p + c
	if math.IsInf(s, 0) || s != s || s == 0 {
		return s
	}
	t := s - p
	rest := (p - (s - t)) + (c - t)
	if v := math.Float64bits(s); rest != 0 && v&1 == 0 {
		if (rest > 0) == (s > 0) {
			v++
		} else {
			v--
		}
		return math.Float64frombits(v)
	}
	return s
}

// halvesOp is for two floats of 16 bits in a register.
func halvesOp(name string, mods []string, typ string) (alu, bool) {
	h, ok := floatOp(name, mods, typ[:len(typ)-2])
	if !ok {
		return h, false
	}
	const m = 0xffff
	switch {
	case h.f1 != nil:
		return one(typ, func(a uint64) uint64 { return h.f1(a&m) | h.f1(a>>16&m)<<16 }), true
	case h.f2 != nil:
		return two(typ, func(a, b uint64) uint64 { return h.f2(a&m, b&m) | h.f2(a>>16&m, b>>16&m)<<16 }), true
	}
	return three(typ, func(a, b, c uint64) uint64 {
		return h.f3(a&m, b&m, c&m) | h.f3(a>>16&m, b>>16&m, c>>16&m)<<16
	}), true
}
