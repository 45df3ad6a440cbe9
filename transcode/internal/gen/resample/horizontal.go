package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// across is the kernel for pictures of so many channels. Each half of a register has one
// position of so many rows: four numbers of 32 bits, one for each row and channel. The last
// number is nothing if there are three channels.
type across struct {
	channels, rows   int
	src, stride      reg.Register
	stride3          reg.Register
	entry, step      reg.Register
	quads            Mem
	first, second    Vec // how taps 0 and 1, and taps 2 and 3, become 16-bit values
	registers, group int // registers with a position of all rows, that are so many
}

// horizontal writes the kernel that scales a group of rows.
func horizontal(name string, channels, group int) {
	Kernel(name, "func(dst *byte, dstStride int, src *byte, srcStride int, entry *uint32, step, turns, quads int)",
		fmt.Sprintf(`scales %d rows of %d channels, a few positions in each turn. The first position has the
entry given, each other one that step bytes farther on. Entries have so many quads.`, group, channels))
	k := across{channels: channels, rows: 4 / channels, group: group}
	k.registers = group / (2 * k.rows)
	dst, dstStride := Arg("dst"), Arg("dstStride")
	k.src, k.stride = Arg("src"), Arg("srcStride")
	k.entry, k.step = Arg("entry"), Arg("step")
	turns := Arg("turns")
	k.quads = ArgAddr("quads")
	k.stride3 = GP64()
	LEAQ(Mem{Base: k.stride, Index: k.stride, Scale: 2}, k.stride3)
	compact := k.compact()
	k.first, k.second = Loaded(k.pick(0)), Loaded(k.pick(2))
	dstStride3 := GP64()
	LEAQ(Mem{Base: dstStride, Index: dstStride, Scale: 2}, dstStride3)

	Label("turn")
	pairs := make([][]Vec, k.registers)
	for n := 0; n < positions; n += 2 {
		one, two := k.position(n), k.position(n+1)
		for i := range pairs {
			pairs[i] = append(pairs[i], Apply(VPACKSSDW, one[i], two[i]))
		}
	}
	to := rowsAt(dst, dstStride, dstStride3, group)
	for i, p := range pairs {
		v := Apply(VPACKUSWB, p[0], p[1])
		if channels != 4 {
			v = Shuffle(v, compact)
		}
		k.store(v, to[2*i*k.rows:])
	}
	ADDQ(U8(positions*channels), dst)
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}

// rowsAt returns the addresses of n rows, 4 or 8, from that of the first one.
func rowsAt(p, stride, stride3 reg.Register, n int) (rows []Mem) {
	for {
		rows = append(rows, Mem{Base: p}, Mem{Base: p, Index: stride, Scale: 1},
			Mem{Base: p, Index: stride, Scale: 2}, Mem{Base: p, Index: stride3, Scale: 1})
		if len(rows) == n {
			return rows
		}
		next := GP64()
		LEAQ(Mem{Base: p, Index: stride, Scale: 4}, next)
		p = next
	}
}

// pick returns the pattern by which taps n and n+1 become 16-bit values: those of one row
// and channel beside each other.
func (k *across) pick(n int) Mem {
	return lanes(fmt.Sprintf("pick%d%d", k.channels, n), func(i int) byte {
		row, channel, tap := i/4/k.channels, i/4%k.channels, n+i/2%2
		if i%2 == 1 || row >= k.rows {
			return none
		}
		return byte((positions*row+tap)*k.channels + channel)
	})
}

// compact returns the pattern that puts the positions of a row beside each other.
func (k *across) compact() Mem {
	return lanes(fmt.Sprintf("compact%d", k.channels), func(i int) byte {
		row, position, channel := i/k.channels/positions, i/k.channels%positions, i%k.channels
		if row >= k.rows {
			return none
		}
		return byte(4*position + row*k.channels + channel)
	})
}

// position returns the next position of the result, as numbers of 32 bits.
func (k *across) position(n int) []Vec {
	p, weights, left := GP64(), GP64(), GP64()
	MOVLQSX(Mem{Base: k.entry}, p)
	switch k.channels {
	case 3:
		LEAQ(Mem{Base: p, Index: p, Scale: 2}, p)
	case 4:
		SHLQ(U8(2), p)
	}
	ADDQ(k.src, p)
	if n == 0 {
		// The next call has other rows: too short and too many for the processor to see them
		// coming.
		ahead := GP64()
		LEAQ(Mem{Base: p, Index: k.stride, Scale: 4}, ahead)
		if k.group == 8 {
			LEAQ(Mem{Base: ahead, Index: k.stride, Scale: 4}, ahead)
		}
		for _, row := range rowsAt(ahead, k.stride, k.stride3, k.group) {
			PREFETCHT0(row)
		}
	}
	LEAQ(Mem{Base: k.entry, Disp: 4}, weights)
	ADDQ(k.step, k.entry)
	low, high := make([]Vec, k.registers), make([]Vec, k.registers)
	quad := func(begin bool) {
		rows := rowsAt(p, k.stride, k.stride3, k.group)
		pixels := make([]Vec, k.registers)
		for i := range pixels {
			pixels[i] = k.load(rows[2*i*k.rows:])
		}
		// Two taps after the other two: AVX2 has sixteen registers.
		for half, pick := range []Vec{k.first, k.second} {
			lows, highs := everywhere(Mem{Base: weights, Disp: 8 * half}), everywhere(Mem{Base: weights, Disp: 8*half + 4})
			for i := range low {
				taps := Shuffle(pixels[i], pick)
				l, h := dot(taps, lows), dot(taps, highs)
				if begin && half == 0 {
					low[i], high[i] = add32(l, rounding), h
					continue
				}
				VPADDD(l, low[i], low[i])
				VPADDD(h, high[i], high[i])
			}
		}
	}
	quad(true)
	MOVQ(k.quads, left)
	more, done := fmt.Sprintf("more%d", n), fmt.Sprintf("done%d", n)
	DECQ(left)
	JZ(LabelRef(done))
	Label(more)
	ADDQ(U8(4*k.channels), p)
	ADDQ(U8(16), weights)
	quad(false)
	DECQ(left)
	JNZ(LabelRef(more))
	Label(done)
	for i := range low {
		VPSLLD(U8(16), high[i], high[i])
		VPADDD(high[i], low[i], low[i])
		VPSRAD(U8(precision), low[i], low[i])
	}
	return low
}

// load returns four pixels of each row of a register. What it begins with fills all of the
// register, so that nothing older is waited for.
func (k *across) load(rows []Mem) Vec {
	v := YMM()
	if k.rows == 1 {
		VBROADCASTI128(rows[0], v)
		VINSERTI128(U8(1), rows[1], v, v)
		return v
	}
	upper := XMM()
	VPBROADCASTD(rows[0], v)
	VMOVD(rows[4], upper)
	for i := 1; i < 4; i++ {
		VPINSRD(U8(i), rows[i], v.AsX(), v.AsX())
		VPINSRD(U8(i), rows[4+i], upper, upper)
	}
	VINSERTI128(U8(1), upper, v, v)
	return v
}

// store writes all positions of the rows of a register; for three channels, four bytes more.
func (k *across) store(v Vec, rows []Mem) {
	if k.rows == 1 {
		VMOVDQU(v.AsX(), rows[0])
		VEXTRACTI128(U8(1), v, rows[1])
		return
	}
	upper := XMM()
	VEXTRACTI128(U8(1), v, upper)
	for i := range k.rows {
		VPEXTRD(U8(i), v.AsX(), rows[i])
		VPEXTRD(U8(i), upper, rows[4+i])
	}
}
