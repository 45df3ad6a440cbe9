package ptxvm

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"strings"
)

// Class sorts instructions by the part of a GPU that executes them.
type Class uint8

// The classes.
const (
	Move Class = iota
	Integer
	Logic // bits, bytes and shifts
	Multiply
	Float
	Convert
	Compare
	Global
	Shared
	Local
	Constant // constant memory and parameters
	Atomic
	Warp // shuffles, votes and their like
	Barrier
	Control
	Other
	numClasses
)

var classNames = [numClasses]string{"move", "integer", "logic", "multiply", "float", "convert", "compare", "global",
	"shared", "local", "constant", "atomic", "warp", "barrier", "control", "other"}

// String returns the name, as "integer".
func (c Class) String() string { return classNames[c] }

func classOf(op string) Class {
	name, rest, _ := strings.Cut(op, ".")
	typ := rest[strings.LastIndexByte(rest, '.')+1:]
	switch name {
	case "mov", "cvta", "activemask":
		return Move
	case "ld", "st", "ldu", "cp":
		switch {
		case strings.Contains(op, "shared") && name != "cp":
			return Shared
		case strings.Contains(op, "local"):
			return Local
		case strings.Contains(op, "const") || strings.Contains(op, "param"):
			return Constant
		}
		return Global
	case "atom", "red":
		return Atomic
	case "shfl", "vote", "match", "redux", "elect":
		return Warp
	case "bar", "barrier":
		if strings.HasPrefix(rest, "warp") {
			return Warp
		}
		return Barrier
	case "membar", "fence":
		return Barrier
	case "bra", "brx", "call", "ret", "exit", "trap":
		return Control
	case "cvt":
		return Convert
	case "setp", "set", "selp", "slct":
		return Compare
	case "and", "or", "xor", "not", "shl", "shr", "shf", "prmt", "lop3", "bfe", "bfi", "popc", "clz", "bfind", "brev", "bmsk", "fns":
		return Logic
	}
	switch {
	case typ != "" && len(typ) > 2 && isFloat(typ):
		return Float
	case strings.HasPrefix(name, "mul") || strings.HasPrefix(name, "mad") || strings.HasPrefix(name, "dp") || name == "div" || name == "rem":
		return Multiply
	}
	switch name {
	case "add", "sub", "addc", "subc", "abs", "neg", "min", "max", "sad":
		return Integer
	}
	return Other
}

type count struct{ warps, lanes uint64 }

// Count is how often something was executed, by warps and by lanes that were not masked.
type Count struct{ Warps, Lanes uint64 }

// Stats is what a launch did.
type Stats struct {
	Total   Count
	Classes [numClasses]Count
	Lines   []LineCount // instructions that were executed, in the order of the text

	GlobalLoaded, GlobalStored uint64 // bytes
	GlobalAccesses             uint64 // instructions of warps
	GlobalSectors              uint64 // of 32 bytes, that these touch
	SharedAccesses             uint64
	BankConflicts              uint64 // cycles more than one each, for 32 banks of 4 bytes
	LocalAccesses              uint64
}

// A LineCount is how often one instruction was executed.
type LineCount struct {
	Line   int
	Text   string
	Source string
	Class  Class
	Count
}

// accessStats is the part that is counted while a block runs.
type accessStats struct {
	loaded, stored, accesses, sectors uint64
	shared, conflicts, local          uint64
}

func newStats(k *kernel) *Stats {
	s := &Stats{Lines: make([]LineCount, len(k.code))}
	for i, in := range k.code {
		s.Lines[i] = LineCount{Line: in.line, Text: in.text, Source: in.source, Class: in.class}
	}
	return s
}

func (s *Stats) add(b *block) {
	for i, c := range b.profile {
		n := &s.Lines[i]
		for _, t := range [...]*Count{&n.Count, &s.Total, &s.Classes[n.Class]} {
			t.Warps += c.warps
			t.Lanes += c.lanes
		}
	}
	a := b.access
	s.GlobalLoaded += a.loaded
	s.GlobalStored += a.stored
	s.GlobalAccesses += a.accesses
	s.GlobalSectors += a.sectors
	s.SharedAccesses += a.shared
	s.BankConflicts += a.conflicts
	s.LocalAccesses += a.local
}

// Hot returns the n instructions that warps executed most often.
func (s *Stats) Hot(n int) []LineCount {
	l := append([]LineCount(nil), s.Lines...)
	sort.SliceStable(l, func(i, j int) bool { return l[i].Warps > l[j].Warps })
	return l[:min(n, len(l))]
}

// String is a table of a few lines.
func (s *Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d warp instructions, %d lane instructions:", s.Total.Warps, s.Total.Lanes)
	for c, n := range s.Classes {
		if n.Warps > 0 {
			fmt.Fprintf(&b, " %s %d", Class(c), n.Warps)
		}
	}
	fmt.Fprintf(&b, "\nglobal: %d accesses, %d sectors, %d bytes loaded, %d stored\nshared: %d accesses, %d more cycles for conflicts; local: %d accesses\n",
		s.GlobalAccesses, s.GlobalSectors, s.GlobalLoaded, s.GlobalStored, s.SharedAccesses, s.BankConflicts, s.LocalAccesses)
	return b.String()
}

// countAccess counts an access of the lanes of m to n bytes each.
func (w *warp) countAccess(sp space, slot int, off uint64, m uint32, n int, write bool) {
	s, reg := &w.b.access, w.lane32(slot)
	sp, _ = resolve(sp, reg[first(m)]+off)
	switch sp {
	case spGlobal:
		if total := uint64(n * bits.OnesCount32(m)); write {
			s.stored += total
		} else {
			s.loaded += total
		}
		s.accesses++
		s.sectors += sectors(reg, off, m)
	case spShared:
		s.shared++
		s.conflicts += conflicts(reg, off, m, n)
	case spLocal:
		s.local++
	}
}

// sectors returns how many an access touches; it is aligned and no larger than one.
func sectors(reg *[32]uint64, off uint64, m uint32) uint64 {
	var seen [32]uint64
	k := 0
next:
	for ; m != 0; m &= m - 1 {
		s := (reg[first(m)&31]+off)>>5 + 1
		for i := k - 1; i >= 0; i-- {
			if seen[i] == s {
				continue next
			}
		}
		seen[k] = s
		k++
	}
	return uint64(k)
}

// conflicts returns the cycles above one: lanes that want different words of a bank take turns. Accesses of 8 bytes
// are two of half the lanes, those of 16 four of a quarter.
func conflicts(reg *[32]uint64, off uint64, m uint32, n int) uint64 {
	words := max(n/4, 1)
	part := 32 / words
	extra := uint64(0)
	for at := 0; at < 32; at += part {
		var bank [32]uint8    // words wanted of each
		var head [32]uint64   // the first of them
		var others [32]uint64 // those that are not first
		k, most := 0, uint8(0)
		sub := m >> at << at
		if at+part < 32 {
			sub &= 1<<(at+part) - 1
		}
		for ; sub != 0; sub &= sub - 1 {
			first := (reg[first(sub)&31]+off)>>2 + 1
			for v := first; v < first+uint64(words); v++ {
				i := v & 31
				switch {
				case bank[i] == 0:
					head[i] = v
				case head[i] == v || slices.Contains(others[:k], v):
					continue
				default:
					others[k] = v
					k++
				}
				bank[i]++
				most = max(most, bank[i])
			}
		}
		if most > 1 {
			extra += uint64(most - 1)
		}
	}
	return extra
}
