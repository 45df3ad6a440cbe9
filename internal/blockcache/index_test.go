package blockcache

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"
)

// The index agrees with a map, whatever comes and goes.
func TestIndex(t *testing.T) {
	type name struct {
		hi uint64
		piece
	}
	quarters := []piece{{0, 8}, {8, 8}, {16, 8}, {24, 8}}
	r := rand.New(rand.NewPCG(1, 2))
	var x index
	want := map[name]ref{}
	for step := range 200_000 {
		it := name{r.Uint64N(2000)*0x9e3779b97f4a7c15 + 1, quarters[r.IntN(4)]}
		switch n := r.IntN(100); {
		case n < 60:
			var s *segment
			for _, s = range x.segments {
				if s != nil && len(s.his) < 300 {
					break
				}
			}
			if s == nil || len(s.his) >= 300 {
				s = &segment{entries: mostEntries}
				x.add(s)
			}
			at := s.id<<idShift | uint32(len(s.his))
			s.extend(1)
			s.his, s.pieces = append(s.his, it.hi), append(s.pieces, it.piece)
			old, ok := want[it]
			if !ok {
				old = empty
			}
			if got := x.put(at); got != old {
				t.Fatalf("step %d: put returned %x, want %x", step, got, old)
			}
			want[it] = at
		case n < 80:
			got := x.find(it.hi, 1<<it.first)
			if w, ok := want[it]; ok != (got != empty) || ok && got != w {
				t.Fatalf("step %d: found %x, want %x", step, got, w)
			}
			if got != empty && !x.drop(got) || got != empty && x.drop(got) {
				t.Fatalf("step %d: drop", step)
			}
			delete(want, it)
			var held units
			for _, q := range quarters {
				if _, ok := want[name{it.hi, q}]; ok {
					held |= q.units()
				}
			}
			if got := x.held(it.hi); got != held {
				t.Fatalf("step %d: %x is held, want %x", step, got, held)
			}
		case n == 80 && len(x.segments) > 10: // a whole segment
			s := x.segments[r.IntN(len(x.segments))]
			if s == nil {
				continue
			}
			for i, hi := range s.his {
				if at := s.id<<idShift | uint32(i); x.drop(at) {
					delete(want, name{hi, s.pieces[i]})
				}
			}
			x.segments[s.id] = nil
		}
		if x.pieces != len(want) {
			t.Fatalf("step %d: %d pieces, want %d", step, x.pieces, len(want))
		}
	}
	for it, w := range want {
		if got := x.find(it.hi, it.units()); got != w {
			t.Errorf("%x: found %x, want %x", it.hi, got, w)
		}
	}
}

// Runs of units are taken from the lowest on.
func TestUnits(t *testing.T) {
	for u, want := range map[units]piece{1: {0, 1}, 0b0110_1100: {2, 2}, 1 << 31: {31, 1}, ^units(0): {0, 32}, ^units(1): {1, 31}} {
		if got := u.lowest(); got != want || got.units()&^u != 0 {
			t.Errorf("%x: %v, want %v", u, got, want)
		}
	}
	for _, c := range []struct {
		block, first, last int64
		want               units
	}{{1, 0, 31, 0}, {1, 0, 32, 1}, {1, 63, 99, 1 << 31}, {1, 64, 70, 0}, {1, 30, 70, ^units(0)}, {0, 3, 4, 0b11000}} {
		if got := within(c.block, c.first, c.last); got != c.want {
			t.Errorf("%d to %d in block %d: %x, want %x", c.first, c.last, c.block, got, c.want)
		}
	}
}

// A piece takes no more memory than doc.go says.
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := &bucketCache{}
	const pieces = 500_000
	rows := make([]entry, 1<<14)
	r := rand.New(rand.NewPCG(1, 2))
	for n := 0; n < pieces; n += len(rows) {
		seg := &segment{entries: len(rows)}
		s.index.add(seg)
		for i := range rows {
			rows[i] = entry{key{r.Uint64(), 0}, uint32(i), 0, blockBytes, 1}
		}
		s.add(seg, rows)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	got := float64(after.HeapAlloc-before.HeapAlloc-uint64(len(rows))*uint64(unsafe.Sizeof(rows[0]))) / float64(s.index.pieces)
	t.Logf("%.1f bytes for each of %d pieces", got, s.index.pieces)
	if got > 29 {
		t.Errorf("a piece takes %.1f bytes", got)
	}
	runtime.KeepAlive(s)
}
