package kernel

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
)

// rowKernels are those that work on rows and have several forms: run takes so many rows of one length,
// and writes size bytes for each sample of a row.
var rowKernels = []struct {
	name       string
	rows, size int
	run        func(dst []byte, in [][]byte)
}{
	{"UpsampleH2V1", 1, 2, func(dst []byte, in [][]byte) { UpsampleH2V1(dst, in[0]) }},
	{"UpsampleH2V2", 2, 2, func(dst []byte, in [][]byte) { UpsampleH2V2(dst, in[0], in[1]) }},
	{"YCCToRGB", 3, 3, func(dst []byte, in [][]byte) { YCCToRGB(dst, in[0], in[1], in[2]) }},
	{"GreyToRGB", 1, 3, func(dst []byte, in [][]byte) { GreyToRGB(dst, in[0]) }},
}

// blockKernels are those that make size×size samples of a block.
var blockKernels = []struct {
	name string
	size int
	run  func(dst []byte, stride int, b *[64]int16, quant *[64]uint16)
}{
	{"Block8", 8, func(dst []byte, stride int, b *[64]int16, q *[64]uint16) { Block8(dst, stride, b, nonzero(b), q) }},
	{"Block4", 4, func(dst []byte, stride int, b *[64]int16, q *[64]uint16) { Block4(dst, stride, b, nonzero(b), q) }},
	{"Block2", 2, func(dst []byte, stride int, b *[64]int16, q *[64]uint16) { Block2(dst, stride, b, nonzero(b), q) }},
}

// samples fills rows with random samples, or with extreme ones.
func samples(rng *rand.Rand, rows [][]byte) {
	extreme := rng.IntN(3) == 0
	for _, row := range rows {
		for i := range row {
			row[i] = byte(rng.Uint32())
			if extreme {
				row[i] = [...]byte{0, 1, 127, 128, 254, 255}[rng.IntN(6)]
			}
		}
	}
}

// TestRows compares all forms of the kernels for rows, for many lengths, in memory
// that ends right before the first byte and after the last one.
func TestRows(t *testing.T) {
	var lengths []int
	for n := 1; n <= 135; n++ {
		lengths = append(lengths, n)
	}
	lengths = append(lengths, 255, 256, 257, 511, 640, 1001, 4095)
	longest := lengths[len(lengths)-1]
	for _, k := range rowKernels {
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			for _, atEnd := range []bool{false, true} {
				part := func(b []byte, n int) []byte {
					if atEnd {
						return b[len(b)-n:]
					}
					return b[:n:n]
				}
				memory := make([][]byte, k.rows+1)
				for i := range memory {
					memory[i] = codectest.GuardedUntilEnd(t, longest*k.size, atEnd)
				}
				in := make([][]byte, k.rows)
				for _, n := range lengths {
					for i := range in {
						in[i] = part(memory[i], n)
					}
					for range 4 {
						samples(rng, in)
						dst := part(memory[k.rows], n*k.size)
						var want []byte
						for _, form := range forms {
							clear(dst)
							form.Use()
							k.run(dst, in)
							if want == nil {
								want = bytes.Clone(dst)
							} else if !bytes.Equal(dst, want) {
								t.Fatalf("%d samples: %s differs from %s:\n%d\n%d\nof %d", n, form.Name, forms[0].Name, dst, want, in)
							}
						}
						checkMargins(t, n, k.size, func(dst []byte) { k.run(dst, in) })
					}
				}
			}
		})
	}
}

// checkMargins runs a kernel that writes n times size bytes and looks at those
// around them.
func checkMargins(t *testing.T, n, size int, run func(dst []byte)) {
	t.Helper()
	const margin = 100
	for _, fill := range []byte{0, 255} {
		b := bytes.Repeat([]byte{fill}, n*size+2*margin)
		run(b[margin : len(b)-margin])
		for i, v := range b {
			if (i < margin || i >= len(b)-margin) && v != fill {
				t.Fatalf("%d samples: byte %d of the margin was written", n, i)
			}
		}
	}
}

// coefficients fills a block and a table, from what a photograph has to anything
// at all.
func coefficients(rng *rand.Rand, b *[64]int16, q *[64]uint16) {
	c := part{blocks: make([][64]int16, 1)}
	fillings[rng.IntN(len(fillings))].fill(rng, &c)
	*b, *q = c.blocks[0], c.quant
	if rng.IntN(4) == 0 {
		for k := range b {
			b[k] = [...]int16{0, 0, 1, -1, 1<<15 - 1, -1 << 15, 1 << 14, -1 << 14}[rng.IntN(8)]
		}
	}
}

// TestBlocks compares all forms of the kernels for blocks.
func TestBlocks(t *testing.T) {
	for _, k := range blockKernels {
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 8))
			for range 20000 {
				var b [64]int16
				var q [64]uint16
				coefficients(rng, &b, &q)
				compareBlock(t, k.size, k.run, &b, &q, k.size+rng.IntN(30))
			}
		})
	}
}

// compareBlock runs all forms of a kernel in memory that ends where the samples
// do.
func compareBlock(t *testing.T, size int, run func([]byte, int, *[64]int16, *[64]uint16), b *[64]int16, q *[64]uint16, stride int) {
	t.Helper()
	const margin = 64
	need := (size-1)*stride + size
	var want, got [2 * (margin + 7*300 + 8)]byte
	var wantIn, in [64]int16
	for i, form := range forms {
		form.Use()
		dst := got[:need+2*margin]
		for j := range dst {
			dst[j] = 0xa5
		}
		in = *b
		run(dst[margin:margin+need:margin+need], stride, &in, q)
		for j := range dst {
			if at := j - margin; (at < 0 || at >= need || at%stride >= size) && dst[j] != 0xa5 {
				t.Fatalf("%s: byte %d, beyond the samples, was written", form.Name, at)
			}
		}
		if i == 0 {
			want, wantIn = got, in
		} else if got != want || in != wantIn {
			t.Fatalf("%s: %d, %d\n%s: %d, %d\nblock %d, table %d", form.Name, dst, in, forms[0].Name, want[:len(dst)], wantIn, *b, *q)
		}
	}
}

// TestColours converts all of YCbCr.
func TestColours(t *testing.T) {
	testenv.Slow(t)
	var y, cb, cr [1 << 16]byte
	for i := range y {
		cb[i], cr[i] = byte(i), byte(i>>8)
	}
	want, got := make([]byte, 3*len(y)), make([]byte, 3*len(y))
	for l := range 256 {
		for i := range y {
			y[i] = byte(l)
		}
		for i, form := range forms {
			form.Use()
			if i == 0 {
				YCCToRGB(want, y[:], cb[:], cr[:])
				continue
			}
			YCCToRGB(got, y[:], cb[:], cr[:])
			if !bytes.Equal(got, want) {
				t.Fatalf("Y %d: %s differs from %s", l, form.Name, forms[0].Name)
			}
		}
	}
}

// TestShort checks that rows that are too short are noticed.
func TestShort(t *testing.T) {
	forms.Each(t, func(t *testing.T) {
		for _, k := range rowKernels {
			in := make([][]byte, k.rows)
			for i := range in {
				in[i] = make([]byte, 64)
			}
			// There is room behind the row, which must not be used.
			dst := make([]byte, 64*k.size)[:64*k.size-1]
			if !panics(func() { k.run(dst, in) }) {
				t.Errorf("%s writes beyond its row", k.name)
			}
			for i := 1; i < k.rows; i++ {
				in[i] = in[i][:63]
				if !panics(func() { k.run(dst[:64*k.size], in) }) {
					t.Errorf("%s reads beyond row %d", k.name, i)
				}
				in[i] = in[i][:64]
			}
			for i := range in {
				in[i] = nil
			}
			if k.name != "UpsampleH2V1" && k.name != "UpsampleH2V2" {
				k.run(nil, in)
			}
		}
		for _, k := range blockKernels {
			if !panics(func() {
				k.run(make([]byte, (k.size-1)*20+k.size)[:(k.size-1)*20+k.size-1], 20, new([64]int16), new([64]uint16))
			}) {
				t.Errorf("%s writes beyond its samples", k.name)
			}
		}
	})
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// TestNoAllocations checks that kernels keep to the stack.
func TestNoAllocations(t *testing.T) {
	forms.Each(t, func(t *testing.T) {
		dst := make([]byte, 4*100)
		in := [][]byte{make([]byte, 100), make([]byte, 100), make([]byte, 100), make([]byte, 100)}
		for _, k := range rowKernels {
			if n := testing.AllocsPerRun(10, func() { k.run(dst, in) }); n != 0 {
				t.Errorf("%s: %v allocations", k.name, n)
			}
		}
		var b [64]int16
		var q [64]uint16
		rng := rand.New(rand.NewPCG(1, 1))
		for _, k := range blockKernels {
			for range 10 {
				coefficients(rng, &b, &q)
				if n := testing.AllocsPerRun(10, func() { k.run(dst, 16, &b, &q) }); n != 0 {
					t.Errorf("%s: %v allocations", k.name, n)
				}
			}
		}
	})
}

// randomTables has entries of every kind; they belong to no code.
func randomTables(rng *rand.Rand) (*Table, *Lengths) {
	t, l := new(Table), new(Lengths)
	rare := 1 + rng.IntN(40) // how rare symbols are that end the block, or are not in the table
	for i := range t {
		length := 1 + rng.IntN(LookBits)
		switch rng.IntN(4 * rare) {
		case 0:
		case 1:
			t[i] = uint32(length) // end of block
		case 2:
			t[i] = uint32(length) | 0xF0<<8
		case 3:
			t[i] = uint32(length) | rng.Uint32N(256)<<8
		default:
			t[i] = uint32(length) | (1+rng.Uint32N(uint32(1+rng.IntN(16))))<<8 | (1+rng.Uint32N(1<<16-1))<<16
		}
		switch rng.IntN(2 * rare) {
		case 0:
		case 1:
			l[i] = LengthsEnd | uint16(1+rng.IntN(LookBits+15))
		default:
			l[i] = uint16(1+rng.IntN(LookBits+15)) | uint16(1+rng.IntN(1+rng.IntN(176)))<<8
		}
	}
	return t, l
}

// TestEntropy compares all forms of Coefficients and Skip, from any state on.
func TestEntropy(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	data := make([]byte, 640)
	stops := map[string]int{}
	for range 200 {
		table, lengths := randomTables(rng)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		for range 200 {
			start := Cursor{Pos: rng.IntN(256), N: rng.UintN(64), K: rng.Uint64N(64)}
			start.Acc = rng.Uint64() >> (63 - start.N) << (63 - start.N) // nothing below the bits that count
			if rng.IntN(4) == 0 {
				start.Entry = 1 + rng.Uint32N(16) | rng.Uint32N(256)<<8
			}
			type result struct {
				Cursor
				block   [64]int16
				stop    Stop
				skipped Cursor
				passed  Stop
			}
			var want result
			for i, form := range forms {
				form.Use()
				got := result{Cursor: start, skipped: start}
				got.stop = Coefficients(&got.Cursor, &got.block, data, table)
				got.passed = Skip(&got.skipped, data, lengths)
				// What is behind the bits that count means nothing.
				got.Acc &^= 1<<(64-got.N) - 1
				got.skipped.Acc &^= 1<<(64-got.skipped.N) - 1
				if got.stop == AtBad {
					got.Acc = 0
				}
				got.Entry = 0
				if i == 0 {
					want = got
					stops[[]string{"end", "long", "bad"}[got.stop]]++
					stops[[]string{"skipped", "long skip"}[got.passed]]++
				} else if got != want {
					t.Fatalf("from %+v: %s gives %+v, %s %+v", start, form.Name, got, forms[0].Name, want)
				}
			}
		}
	}
	for _, s := range []string{"end", "long", "bad", "skipped", "long skip"} {
		if stops[s] < 1000 {
			t.Errorf("%s came only %d times: %v", s, stops[s], stops)
		}
	}
}

// FuzzKernels compares all forms of all kernels with each other.
func FuzzKernels(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte("\x00\x01\x00\x02\xff\xff"), uint8(8))
	long := make([]byte, 700)
	for i := range long {
		long[i] = byte(i * i)
	}
	f.Add(long, uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, stride uint8) {
		var b [64]int16
		var q [64]uint16
		word := func(i int) uint16 {
			if 2*i+2 > len(data) {
				return uint16(i & 7)
			}
			return binary.LittleEndian.Uint16(data[2*i:])
		}
		for k := range b {
			b[k], q[k] = int16(word(k)), word(64+k)
		}
		for _, k := range blockKernels {
			compareBlock(t, k.size, k.run, &b, &q, k.size+int(stride))
		}
		for _, k := range rowKernels {
			n := len(data) / k.rows
			if n == 0 {
				continue
			}
			in := make([][]byte, k.rows)
			for i := range in {
				in[i] = data[i*n : (i+1)*n : (i+1)*n]
			}
			var want []byte
			for i, form := range forms {
				form.Use()
				dst := make([]byte, n*k.size)
				k.run(dst, in)
				if i == 0 {
					want = dst
				} else if !bytes.Equal(dst, want) {
					t.Fatalf("%s: %s differs for %d samples", k.name, form.Name, n)
				}
			}
		}
	})
}
