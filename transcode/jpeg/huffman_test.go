package jpeg

import (
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestHuffman codes random symbols with tables made for random histograms, some
// of them so uneven that codes must be shortened, and decodes them again.
func TestHuffman(t *testing.T) {
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var builder treeBuilder
	var table huffTable
	for round := range 300 {
		var h histogram
		var symbols []byte
		n := 1 + rng.IntN(256)
		freq, before := uint32(1), uint32(1)
		for _, symbol := range rng.Perm(256)[:n] {
			h[symbol] = freq
			switch round % 3 {
			case 0: // Fibonacci: the deepest tree there is
				if freq < 1<<30 {
					freq, before = freq+before, freq
				}
			case 1:
				freq = 1 + rng.Uint32N(1000)
			}
			symbols = append(symbols, byte(symbol))
		}
		codes := builder.build(&h)
		spec := huffSpec{counts: codes.counts, n: len(codes.values), set: true}
		copy(spec.values[:], codes.values)
		space := 0
		for l := 1; l <= 16; l++ {
			space += int(codes.counts[l]) << (16 - l)
		}
		// One code of the longest length is reserved, and nothing else is wasted.
		longest := 16
		for codes.counts[longest] == 0 {
			longest--
		}
		if want := 1<<16 - 1<<(16-longest); len(codes.values) != n || space != want && n > 1 {
			t.Fatalf("seed %d, round %d: %d values, space %d of %d", seed, round, len(codes.values), space, want)
		}
		if !table.build(tableAC, &spec) {
			t.Fatalf("seed %d, round %d: table is refused", seed, round)
		}
		var out [512]uint32
		codes.fill(out[:])
		var tokens []token
		var want []byte
		for range 3000 {
			s := symbols[rng.IntN(n)]
			want = append(want, s)
			extra := rng.UintN(17)
			tokens = append(tokens, token(s)<<tokenSymbol|token(extra)<<tokenCount|token(rng.UintN(1<<extra)))
		}
		w := bitWriter{buf: make([]byte, 10), free: 64}
		w.tokens(tokens, &out)
		w.flush(padding)
		d := decoder{walker: walker{src: append(w.buf[:w.pos], EOI[:]...)}, c: new(Coefficients)}
		if _, err := d.unstuff(0, 1); err != nil {
			t.Fatal(err)
		}
		r := bitReader{data: d.bits}
		for i, s := range want {
			r.fill()
			before := r.Cursor
			got := r.symbol(&table)
			if e := table.fast[before.Acc>>(64-lookBits)]; e>>16 != 0 {
				// The table knows the value of the extra bits as well.
				got, r = symbolOf(e), bitReader{data: r.data, Cursor: before}
				r.take(uint(e&63) - uint(got&15))
			}
			extra := r.take(uint(tokens[i] >> tokenCount & 31))
			if got != uint32(s) || extra != tokens[i]&0xFFFF {
				t.Fatalf("seed %d, round %d: symbol %d is %d and %d, want %d and %d", seed, round, i, got, extra, s, tokens[i]&0xFFFF)
			}
		}
		if end := d.intervals[0].end; r.over(end) || end*8-(r.Pos*8-int(r.N)) >= 8 {
			t.Fatalf("seed %d, round %d: not at the end", seed, round)
		}
	}
}

// symbolOf is the symbol of an entry that combines it with a value.
func symbolOf(e uint32) uint32 {
	return (e>>8&255-1)<<4 | uint32(bitLen(int32(e)>>16))
}

// TestLongCodes decodes a baseline picture whose codes are all longer than what
// the decoder looks up at once.
func TestLongCodes(t *testing.T) {
	c, err := coefficientsOf(synthetic(t, 64, 48, "-grayscale -quality 95"), Limits{})
	testenv.Must(t, err)
	// All symbols with 16 bits, but for one of 1 bit that is not used.
	spec := func(values []byte) []byte {
		s := huffSpec{set: true, n: 1 + len(values)}
		s.counts[1], s.counts[16] = 1, uint8(len(values))
		s.values[0] = values[len(values)-1]
		copy(s.values[1:], values)
		return append(append([]byte{}, s.counts[1:]...), s.values[:s.n]...)
	}
	dcValues := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	var acValues []byte
	for s := range 256 {
		if size := s & 15; s == 0 || s == symbolZRL || size >= 1 && size <= 10 {
			acValues = append(acValues, byte(s))
		}
	}
	dc := spec(dcValues)
	ac := spec(acValues)
	w := bitWriter{buf: make([]byte, 1<<20), free: 64}
	w.bytes(0xFF, mSOI)
	w.bytes(segment(mDQT, string(make([]byte, 65)))...)
	w.bytes(segment(mSOF0, "\x08\x00\x30\x00\x40\x01\x01\x11\x00")...)
	w.bytes(segment(mDHT, "\x00"+string(dc))...)
	w.bytes(segment(mDHT, "\x10"+string(ac))...)
	w.bytes(segment(mSOS, "\x01\x01\x00\x00\x3F\x00")...)
	code := func(values []byte, symbol byte) {
		for i, v := range values {
			if v == symbol {
				w.put(1<<15+uint64(i), 16)
				return
			}
		}
		t.Fatalf("no symbol %02X", symbol)
	}
	value := func(v int32, size uint) {
		if size > 0 {
			w.put(uint64(uint32(v+v>>31))&(1<<size-1), int(size))
		}
	}
	pred := int32(0)
	p := &c.Components[0]
	for i := range p.Blocks {
		diff := int32(p.Blocks[i][0]) - pred
		pred += diff
		code(dcValues, byte(bitLen(diff)))
		value(diff, bitLen(diff))
		run := 0
		for k := 1; k < 64; k++ {
			v := int32(p.Blocks[i][k])
			if v == 0 {
				run++
				continue
			}
			for ; run > 15; run -= 16 {
				code(acValues, symbolZRL)
			}
			code(acValues, byte(run<<4)|byte(bitLen(v)))
			value(v, bitLen(v))
			run = 0
		}
		if run > 0 {
			code(acValues, 0)
		}
	}
	w.flush(padding)
	w.bytes(EOI[:]...)
	src := w.buf[:w.pos]
	got, err := coefficientsOf(src, Limits{})
	testenv.Must(t, err)
	for i := range p.Blocks {
		if got.Components[0].Blocks[i] != p.Blocks[i] {
			t.Fatalf("block %d differs", i)
		}
	}
	checkOracle(t, src)
}

// TestSkip passes by blocks of random codes, many of them invalid, and compares with
// decoding them.
func TestSkip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	var dc, ac huffTable
	blocks := 0
	for round := range 300 {
		for _, table := range []struct {
			table *huffTable
			kind  tableKind
		}{{&dc, tableDC}, {&ac, tableAC}} {
			spec := huffSpec{set: true}
			for space, l := 1<<16-1, 1; l <= 16; l++ {
				n := rng.IntN(min(space>>(16-l), []int{1, 4, 20}[rng.IntN(3)]) + 1)
				if table.kind == tableDC {
					n = min(n, 16-spec.n)
				}
				n = min(n, 256-spec.n)
				spec.counts[l] = uint8(n)
				for range n {
					spec.values[spec.n] = byte(rng.Uint32())
					if rng.IntN(8) == 0 {
						spec.values[spec.n] = 0
					}
					if table.kind == tableDC {
						spec.values[spec.n] &= 15
					}
					spec.n++
				}
				space -= n << (16 - l)
			}
			if !table.table.build(table.kind, &spec) {
				t.Fatalf("round %d: the table is refused: %v", round, spec.counts)
			}
		}
		data := make([]byte, 8000)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		data = append(data, make([]byte, entropyPad)...)
		full, quick := bitReader{data: data}, bitReader{data: data}
		for !full.over(8000) {
			var b, scratch Block
			_, diff, ok := full.block(&b, &dc, &ac)
			got, passed := quick.skip(&scratch, &dc, &ac)
			at, want := quick.Pos*8-int(quick.N), full.Pos*8-int(full.N)
			if passed != ok || ok && (got != diff || at != want) {
				t.Fatalf("round %d: %d, bit %d, %v; decoded %d, bit %d, %v", round, got, at, passed, diff, want, ok)
			}
			if !ok {
				// On with the next byte.
				full.reset((want + 15) / 8)
				quick.reset((want + 15) / 8)
				continue
			}
			blocks++
		}
	}
	if blocks < 10000 {
		t.Errorf("only %d blocks were whole", blocks)
	}
}
