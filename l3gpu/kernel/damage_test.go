package kernel

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// rebuilt is a file of version 2 with other patches, whose checksums are right.
func rebuilt(t testing.TB, src []byte, change func(i int, patch []byte) []byte) []byte {
	t.Helper()
	parts, err := opened(t, src).Parts()
	testenv.Must(t, err)
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	out := append([]byte(nil), src[:32+8*len(parts)]...)
	out = append(out, src[32+8*len(parts):][:binary.LittleEndian.Uint32(src[24:])]...)
	begin := len(out)
	align := func() {
		for len(out)%16 != 0 {
			out = append(out, 0)
		}
	}
	for i, p := range parts {
		align()
		patch := change(i, append([]byte(nil), src[p.Offset[0]:][:p.Length[0]]...))
		binary.LittleEndian.PutUint32(out[32+8*i:], uint32(len(patch)))
		binary.LittleEndian.PutUint32(out[36+8*i:], crc32.Checksum(patch, castagnoli))
		out = append(out, patch...)
	}
	align()
	out = append(out, make([]byte, 8)...)
	clear(out[28:32])
	binary.LittleEndian.PutUint32(out[28:], crc32.Checksum(out[:begin], castagnoli))
	return out
}

// damaged changes some bits, bytes or the length of b, rather where fields begin.
func damaged(rng *rand.Rand, b []byte) []byte {
	for range 1 + rng.IntN(3) {
		if len(b) == 0 {
			return b
		}
		at := rng.IntN(len(b))
		if rng.IntN(3) == 0 {
			at = rng.IntN(min(len(b), 60))
		}
		switch rng.IntN(8) {
		case 0:
			b[at] = byte(rng.Uint32())
		case 1:
			b[at]++
		case 2:
			b = b[:at]
		case 3:
			b = append(b, make([]byte, 1+rng.IntN(20))...)
		case 4:
			b = append(b[:at], append([]byte{byte(rng.Uint32())}, b[at:]...)...)
		default:
			b[at] ^= 1 << rng.IntN(8)
		}
	}
	return b
}

// TestDamage wants the kernels to refuse what the processor's decoder refuses, and to
// make the same of everything else. A soak makes it long.
func TestDamage(t *testing.T) {
	testenv.Slow(t)
	seed, batches := testenv.Seed(t), len(few(make([]int, 8), 1))
	if testenv.Soak() {
		batches = 2000
	}
	if n, err := strconv.Atoi(os.Getenv("PIPEFS_BATCHES")); err == nil {
		batches = n
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	refused, taken := 0, 0
	for range batches {
		var items []item
		for len(items) < 40 {
			mode := pictures.L3Modes[rng.IntN(len(pictures.L3Modes))]
			width, height := 1+rng.IntN(40), 1+rng.IntN(40)
			coding := []l3.Mode{l3.Dense, l3.Dense, l3.Fast, l3.V1}[rng.IntN(4)]
			o := l3.Options{Mode: coding, Patch: 20 + rng.IntN(40)}
			if !l3.Holds(mode, o.Version()) {
				continue
			}
			b, err := l3.Encode(picture(rng, mode, width, height, rng.IntN(len(contents))), o)
			testenv.Must(t, err)
			if o.Version() == 1 {
				b = damaged(rng, b)
			} else {
				parts, _ := opened(t, b).Parts()
				bad := rng.IntN(len(parts))
				b = rebuilt(t, b, func(i int, patch []byte) []byte {
					if i == bad {
						patch = damaged(rng, patch)
					}
					return patch
				})
			}
			s, err := l3.Open(b, transcode.Limits{})
			if err != nil || s.Width*s.Height > 1<<16 {
				continue
			}
			items = append(items, item{samples: s, order: orders[rng.IntN(len(orders))]})
			if _, err := want(items[len(items)-1]); err != nil {
				refused++
			} else {
				taken++
			}
		}
		check(t, items)
	}
	t.Logf("%d refused, %d taken", refused, taken)
}

// TestRefusals has a patch for each rule of "A decoder refuses" in docs/l3.md.
func TestRefusals(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	dense, err := l3.Encode(picture(rng, transcode.ModeRGB, 70, 40, 4), l3.Options{})
	testenv.Must(t, err)
	fast, err := l3.Encode(picture(rng, transcode.ModeL, 20, 20, 3), l3.Options{Mode: l3.Fast})
	testenv.Must(t, err)
	const codes = 36
	var items []item
	add := func(src []byte, change func(b []byte) []byte) {
		items = append(items, item{samples: opened(t, rebuilt(t, src, func(_ int, b []byte) []byte { return change(b) })), order: orders[0]})
	}
	set := func(at int, v byte) func(b []byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	add(dense, func(b []byte) []byte { return b })
	for _, c := range [][2]int{{0, 3}, {0, 255}, {1, 3}, {1, 0x30}, {1, 0x40}, {2, 2}, {2, 0}, {3, 1}, {4, 0xff}, {35, 1}, {7, 0x80}} {
		add(dense, set(c[0], byte(c[1])))
	}
	add(fast, set(0, 1))
	add(fast, set(1, 4))
	add(fast, set(4, 0x99))
	for n := range 50 {
		add(dense, func(b []byte) []byte { return b[:n] })
	}
	add(dense, func(b []byte) []byte { return append(b, 0) })
	add(dense, func(b []byte) []byte { return b[:len(b)-1] })
	// Every stream: one byte of it moves to the next, which leaves the sum as it is.
	for i := range 7 {
		add(dense, func(b []byte) []byte {
			n := binary.LittleEndian.Uint32(b[4+4*i:])
			binary.LittleEndian.PutUint32(b[4+4*i:], n-1)
			n = binary.LittleEndian.Uint32(b[8+4*i:])
			binary.LittleEndian.PutUint32(b[8+4*i:], n+1)
			return b
		})
	}
	// Ones behind the end of each stream.
	for i := range 8 {
		add(dense, func(b []byte) []byte {
			end := len(b)
			for k := 7; k > i; k-- {
				end -= int(binary.LittleEndian.Uint32(b[4+4*k:]))
			}
			b[end-1] |= 0x80
			return b
		})
	}
	// Each of the codes becomes another.
	for at := codes; at < codes+300; at += 3 {
		add(dense, func(b []byte) []byte { b[at] ^= byte(1 + rng.IntN(255)); return b })
	}
	// Quotients of escapes that are too small.
	add(dense, func(b []byte) []byte {
		clear(b[len(b)-int(binary.LittleEndian.Uint32(b[32:])):])
		return b
	})
	// Blocks that are as full as may be, and fuller; quotients that are too large.
	for _, b := range [][]byte{
		oneBlock(9, 1<<56-1, make([]byte, 7)), oneBlock(9, 1<<57-1, make([]byte, 8)), oneBlock(9, 1<<64-1, make([]byte, 8)),
		oneBlock(15, 1, []byte{1}, []byte{1}, []byte{0}), oneBlock(15, 1, []byte{1}, []byte{1}, []byte{1}, []byte{0}),
		oneBlock(14, 2, []byte{1}, []byte{1}, []byte{1}, []byte{1}, []byte{1}, []byte{1}, []byte{0}),
		oneBlock(14, 2, []byte{1}, []byte{1}, []byte{1}, []byte{1}, []byte{1}, []byte{1}, []byte{1}, []byte{7}),
	} {
		small := encoded(t, picture(rng, transcode.ModeL, 8, 8, 0), l3.Options{})
		add(small.Source(), func([]byte) []byte { return b })
	}
	// Version 1: a patch that is longer than its rows.
	long := encoded(t, picture(rng, transcode.ModeL, 8, 8, 3), l3.Options{Mode: l3.V1}).Source()
	long = append(long[:len(long):len(long)], 0)
	long[14]++
	items = append(items, item{samples: opened(t, long), order: orders[0]})

	if testenv.Race {
		items = items[len(items)-20:]
	}
	check(t, items)
	refused := 0
	for _, it := range items {
		if _, err := want(it); err != nil {
			refused++
		}
	}
	t.Logf("%d of %d are refused", refused, len(items))
	if refused < len(items)/2 || refused == len(items) {
		t.Errorf("%d of %d are refused", refused, len(items))
	}
}

// oneBlock is a grey patch of 8×8 of which one block is not zero: its code is that of a
// Rice code, plane its plane 1.
func oneBlock(code byte, plane uint64, streams ...[]byte) []byte {
	b := []byte{0, 0, 1, 0}
	for i := range 8 {
		n := 0
		if i < len(streams) {
			n = len(streams[i])
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	b = append(append(b, code), make([]byte, 23)...)
	b = binary.LittleEndian.AppendUint64(b, plane)
	b = append(b, make([]byte, 8*int(code-9))...)
	for _, s := range streams {
		b = append(b, s...)
	}
	return b
}

// FuzzPatch gives any bytes to both decoders as a patch.
func FuzzPatch(f *testing.F) {
	rng := rand.New(rand.NewPCG(9, 1))
	for i, mode := range pictures.L3Modes {
		b, err := l3.Encode(picture(rng, mode, 9+i, 5+8*i, i%len(contents)), l3.Options{Mode: l3.Mode(i % 2)})
		testenv.Must(f, err)
		parts, err := opened(f, b).Parts()
		testenv.Must(f, err)
		f.Add(b[parts[0].Offset[0]:][:parts[0].Length[0]], uint8(9+i), uint8(5+8*i), uint8(i))
	}
	f.Fuzz(func(t *testing.T, patch []byte, width, height, mode uint8) {
		if width == 0 || height == 0 {
			return
		}
		px := &transcode.Pixels{Width: int(width), Height: int(height), Mode: pictures.L3Modes[int(mode)%len(pictures.L3Modes)]}
		if px.Mode.Depth() == 16 {
			px.Type = transcode.Uint16
		}
		px.Pix = make([]byte, px.Len())
		b, err := l3.Encode(px, l3.Options{Mode: l3.Fast})
		testenv.Must(t, err)
		check(t, []item{{samples: opened(t, rebuilt(t, b, func(int, []byte) []byte { return patch })), order: orders[0]}})
	})
}

// FuzzVersion1 gives anything to both decoders.
func FuzzVersion1(f *testing.F) {
	rng := rand.New(rand.NewPCG(11, 1))
	for i, patch := range []int{1, 3, 8, 40} {
		b, err := l3.Encode(picture(rng, []transcode.Mode{transcode.ModeL, transcode.ModeRGB}[i%2], 5+9*i, 3+7*i, i), l3.Options{Mode: l3.V1, Patch: patch})
		testenv.Must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := l3.Open(src, transcode.Limits{})
		if err != nil || s.Version != 1 || s.Width*s.Height > 1<<16 {
			return
		}
		check(t, []item{{samples: s, order: orders[1]}})
	})
}
