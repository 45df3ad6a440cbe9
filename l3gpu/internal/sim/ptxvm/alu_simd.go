package ptxvm

import (
	"slices"
	"strings"
)

// simdOp is for the video instructions on four bytes or two halves: vadd4, vsub4, vavrg4, vabsdiff4, vmin4, vmax4,
// vset4 and those with 2, without masks and selectors. parts is the opcode cut at its dots.
func simdOp(parts []string) (alu, bool) {
	name := parts[0]
	lanes := int(name[len(name)-1] - '0')
	name = strings.TrimSuffix(strings.TrimSuffix(name, "4"), "2")
	if lanes != 2 && lanes != 4 {
		return alu{}, false
	}
	var types []string
	var mods []string
	for _, p := range parts[1:] {
		if typeSize(p) == 4 {
			types = append(types, p)
		} else {
			mods = append(mods, p)
		}
	}
	compare := ""
	if name == "vset" {
		if len(types) != 2 || len(mods) == 0 {
			return alu{}, false
		}
		compare, mods = mods[0], mods[1:]
		types = append([]string{"u32"}, types...)
	}
	if len(types) != 3 {
		return alu{}, false
	}
	size := 4 / lanes
	get := func(v uint64, i int, typ string) int64 {
		v >>= 8 * size * i
		if isSigned(typ) {
			return signed(v, size)
		}
		return int64(v & sizeMask(size))
	}
	f := simdLane(name, compare)
	if f == nil {
		return alu{}, false
	}
	lo, hi := int64(0), int64(sizeMask(size))
	if isSigned(types[0]) {
		lo, hi = -(hi+1)/2, hi/2
	}
	sat, sum := slices.Contains(mods, "sat"), slices.Contains(mods, "add")
	if len(mods) > 1 || len(mods) == 1 && !sat && !sum {
		return alu{}, false
	}
	return three("u32", func(a, b, c uint64) uint64 {
		r, total := uint64(0), int64(c)
		for i := 0; i < lanes; i++ {
			v := f(get(a, i, types[1]), get(b, i, types[2]))
			if sat {
				v = min(max(v, lo), hi)
			}
			total += v
			r |= uint64(v) & sizeMask(size) << (8 * size * i)
		}
		if sum {
			return uint64(uint32(total))
		}
		return r
	}), true
}

func simdLane(name, compare string) func(a, b int64) int64 {
	switch name {
	case "vadd":
		return func(a, b int64) int64 { return a + b }
	case "vsub":
		return func(a, b int64) int64 { return a - b }
	case "vavrg": // rounded away from zero
		return func(a, b int64) int64 {
			s := a + b
			if s >= 0 {
				s++
			}
			return s >> 1
		}
	case "vabsdiff":
		return func(a, b int64) int64 { return max(a-b, b-a) }
	case "vmin":
		return func(a, b int64) int64 { return min(a, b) }
	case "vmax":
		return func(a, b int64) int64 { return max(a, b) }
	case "vset":
		ok := func(a, b int64) bool { return false }
		switch compare {
		case "eq":
			ok = func(a, b int64) bool { return a == b }
		case "ne":
			ok = func(a, b int64) bool { return a != b }
		case "lt":
			ok = func(a, b int64) bool { return a < b }
		case "le":
			ok = func(a, b int64) bool { return a <= b }
		case "gt":
			ok = func(a, b int64) bool { return a > b }
		case "ge":
			ok = func(a, b int64) bool { return a >= b }
		default:
			return nil
		}
		return func(a, b int64) int64 {
			if ok(a, b) {
				return 1
			}
			return 0
		}
	}
	return nil
}
