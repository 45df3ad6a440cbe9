package ptxvm

import "math"

// convert returns cvt from one type to another, with its modifiers: rounding, .sat, .ftz.
func convert(mods []string, to, from string) (func(a uint64) uint64, bool) {
	round, sat, ftz := "", false, false
	for _, m := range mods {
		switch m {
		case "rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi":
			round = m
		case "sat":
			sat = true
		case "ftz":
			ftz = true
		default:
			return nil, false
		}
	}
	if isFloat(to) && formats[to].get == nil || isFloat(from) && formats[from].get == nil {
		return nil, false
	}
	get := func(f float64) float64 {
		if ftz && math.Abs(f) < 0x1p-126 {
			return math.Copysign(0, f)
		}
		return f
	}
	ts, fs := typeSize(to), typeSize(from)
	switch {
	case isFloat(to) && isFloat(from):
		ff, tf := formats[from], formats[to]
		if ts < fs && round != "rn" { // rounding that is not to the nearest is rare
			return nil, false
		}
		integral := toIntegral(round)
		return func(a uint64) uint64 {
			f := get(ff.get(a & sizeMask(fs)))
			if len(round) == 3 {
				f = integral(f)
			}
			if sat {
				if f = min(max(f, 0), 1); f != f {
					f = 0
				}
			}
			return tf.put(get(f))
		}, true
	case isFloat(to):
		if round != "rn" {
			return nil, false
		}
		return fromInteger(to, from), true
	case isFloat(from):
		if len(round) != 3 {
			return nil, false
		}
		ff, integral := formats[from], toIntegral(round)
		return func(a uint64) uint64 { return floatToInt(integral(get(ff.get(a&sizeMask(fs)))), to) }, true
	}
	if round != "" {
		return nil, false
	}
	return func(a uint64) uint64 { return intToInt(a, to, from, sat) }, true
}

func toIntegral(round string) func(f float64) float64 {
	switch round {
	case "rzi":
		return math.Trunc
	case "rmi":
		return math.Floor
	case "rpi":
		return math.Ceil
	}
	return math.RoundToEven
}

func intToInt(a uint64, to, from string, sat bool) uint64 {
	ts, fs := typeSize(to), typeSize(from)
	v := a & sizeMask(fs)
	if isSigned(from) {
		v = uint64(signed(a, fs))
	}
	if sat {
		switch negative := isSigned(from) && int64(v) < 0; {
		case isSigned(to):
			top := sizeMask(ts) >> 1
			if negative {
				v = uint64(max(int64(v), -int64(top)-1))
			} else {
				v = min(v, top)
			}
		case negative:
			v = 0
		default:
			v = min(v, sizeMask(ts))
		}
	}
	if isSigned(to) { // extended to its register; an unsigned one ends at its type
		return uint64(signed(v, ts))
	}
	return v & sizeMask(ts)
}

// floatToInt clamps, and NaN is 0.
func floatToInt(f float64, to string) uint64 {
	size := typeSize(to)
	n := 8 * size
	if f != f {
		return 0
	}
	if isSigned(to) {
		switch top := math.Ldexp(1, n-1); {
		case f >= top:
			return sizeMask(size) >> 1
		case f <= -top:
			return uint64(-int64(1) << (n - 1))
		}
		return uint64(int64(f))
	}
	switch {
	case f <= 0:
		return 0
	case f >= math.Ldexp(1, n):
		return sizeMask(size)
	}
	return uint64(f)
}

// fromInteger rounds once: numbers of 64 bits must not be rounded to float64 on their way to fewer digits.
func fromInteger(to, from string) func(a uint64) uint64 {
	fs, put := typeSize(from), formats[to].put
	if isSigned(from) {
		return func(a uint64) uint64 {
			v := signed(a, fs)
			if to == "f32" {
				return uint64(math.Float32bits(float32(v)))
			}
			return put(float64(v))
		}
	}
	return func(a uint64) uint64 {
		v := a & sizeMask(fs)
		if to == "f32" {
			return uint64(math.Float32bits(float32(v)))
		}
		return put(float64(v))
	}
}
