package ptxvm

import "slices"

// Count is how often something was executed, by warps and by lanes that were not masked.
type Count struct{ Warps, Lanes uint64 }

// Stats is what a launch did.
type Stats struct {
	Total Count
	Lines []LineCount // in the order of the text

	GlobalAccesses uint64 // instructions of warps
	GlobalSectors  uint64 // of 32 bytes, that these touch
	SharedAccesses uint64
	BankConflicts  uint64 // cycles more than one each, for 32 banks of 4 bytes
}

// A LineCount is how often one instruction was executed.
type LineCount struct {
	Line int // of the PTX text
	Count
}

// accessStats is the part that is counted while a block runs.
type accessStats struct{ accesses, sectors, shared, conflicts uint64 }

func newStats(k *kernel) *Stats {
	s := &Stats{Lines: make([]LineCount, len(k.code))}
	for i, in := range k.code {
		s.Lines[i].Line = in.line
	}
	return s
}

func (s *Stats) add(b *block) {
	for i, c := range b.profile {
		for _, t := range [...]*Count{&s.Lines[i].Count, &s.Total} {
			t.Warps += c.Warps
			t.Lanes += c.Lanes
		}
	}
	s.GlobalAccesses += b.access.accesses
	s.GlobalSectors += b.access.sectors
	s.SharedAccesses += b.access.shared
	s.BankConflicts += b.access.conflicts
}

// countAccess counts an access of the lanes of m to n bytes each.
func (w *warp) countAccess(in *instr, m uint32, n int) {
	s, reg := &w.b.access, w.lane32(in.a)
	switch in.space {
	case spGlobal:
		s.accesses++
		s.sectors += sectors(reg, in.off, m)
	case spShared:
		s.shared++
		s.conflicts += conflicts(reg, in.off, m, n)
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
