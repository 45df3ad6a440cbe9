package main

import (
	"bytes"
	"encoding/binary"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

type constants struct {
	// unpack has, for each width of deltas, 128 bytes: which bytes of a group go
	// into which word, the factor that moves the delta to the upper half of a product, its
	// mask.
	unpack Mem
	// columns has 64 bytes of ones and 64 of zeros: from 64-w on it is the mask of w
	// samples.
	columns Mem
}

func tables() constants {
	unpack := make([]byte, 9*128)
	for n := range 9 {
		t := unpack[128*n:]
		for i := range 16 {
			// A group of 8 deltas has n bytes and begins 4 bits after one of the row's.
			// Shifts are by 1 to 8, since a factor of 1<<16 does not exist.
			bit := 4 + i%8*n
			first := (bit - 1) / 8
			t[2*i], t[2*i+1] = byte(first), byte(first+1)
			binary.LittleEndian.PutUint16(t[32+2*i:], 1<<(16-(bit-8*first)))
			binary.LittleEndian.PutUint16(t[64+2*i:], 1<<n-1)
		}
	}
	columns := append(bytes.Repeat([]byte{0xff}, 64), make([]byte, 64)...)
	return constants{Data("unpack", unpack), Data("columns", columns)}
}

// patch holds the registers of a function that decodes a patch.
type patch struct {
	src, size, pos, w reg.GPVirtual
	unpack, columns   reg.GPVirtual

	// Of a row.
	nbits, constants reg.GPVirtual
	base             Vec
	group            [4]reg.GPVirtual
}

func newPatch(t constants) *patch {
	p := &patch{src: Arg("src"), size: Arg("size"), w: Arg("w"), pos: GP64()}
	p.unpack, p.columns = GP64(), GP64()
	XORQ(p.pos, p.pos)
	LEAQ(t.unpack, p.unpack)
	LEAQ(t.columns, p.columns)
	return p
}

// head reads the head of a row and moves on to the next. Where it is beyond the
// patch, or has deltas of more than 8 bits, it jumps to fail.
func (p *patch) head() {
	// About a patch ahead: the next ones follow, but the processor does not foresee that
	// beyond a page.
	PREFETCHT0(Mem{Base: p.src, Index: p.pos, Scale: 1, Disp: 3072})
	CMPQ(p.pos, p.size)
	JA(LabelRef("fail"))
	at, head := GP64(), GP32()
	LEAQ(Mem{Base: p.src, Index: p.pos, Scale: 1}, at)
	MOVWLZX(Mem{Base: at}, head)
	n := GP64()
	MOVL(head, n.As32())
	ANDL(U8(15), n.As32())
	CMPL(n.As32(), U8(8))
	JA(LabelRef("fail"))
	SHRL(U8(4), head)
	p.base = YMM()
	VMOVD(head, p.base.AsX())
	VPBROADCASTB(p.base.AsX(), p.base)
	// 12 bits of head and 7 to round up.
	bits := GP64()
	MOVQ(n, bits)
	IMULQ(p.w, bits)
	ADDQ(U8(19), bits)
	SHRQ(U8(3), bits)
	ADDQ(bits, p.pos)
	p.nbits, p.constants = n, GP64()
	MOVQ(n, p.constants)
	SHLQ(U8(7), p.constants)
	ADDQ(p.unpack, p.constants)
	for i := range p.group {
		p.group[i] = GP64()
		if i == 0 {
			LEAQ(Mem{Base: at, Disp: 1}, p.group[i])
		} else {
			LEAQ(Mem{Base: p.group[i-1], Index: n, Scale: 1}, p.group[i])
		}
	}
}

// residuals unpacks 32 samples of the row, those of the groups 4*i to 4*i+3.
func (p *patch) residuals(i int) Vec {
	words := func(lower, upper int) Vec {
		at := func(g int) Mem {
			m := Mem{Base: p.group[g]}
			if i > 0 {
				m.Index, m.Scale = p.nbits, uint8(4*i)
			}
			return m
		}
		v := YMM()
		VMOVDQU(at(lower), v.AsX())
		VINSERTI128(U8(1), at(upper), v, v)
		VPSHUFB(Mem{Base: p.constants}, v, v)
		VPMULHUW(Mem{Base: p.constants, Disp: 32}, v, v)
		VPAND(Mem{Base: p.constants, Disp: 64}, v, v)
		return v
	}
	return Plus(Apply(VPACKUSWB, words(0, 2), words(1, 3)), p.base)
}

// align shifts hi and lo, as one, right by n bytes.
func align(hi, lo Vec, n int) Vec {
	d := YMM()
	VPALIGNR(U8(n), lo, hi, d)
	return d
}

// rows decodes patches of which a row fits into registers.
func rows(t constants) {
	Kernel("rowsAVX2", "func(dst *byte, row int, src *byte, size, w, h int) int",
		`decodes a patch of up to 64 samples a row and writes 32 samples of each, or 64 if w is more, row bytes
apart. It returns how many bytes of src it took, or -1; it may look at overRead bytes more than size.`)
	p := newPatch(t)
	dst, row, h := Arg("dst"), Arg("row"), Arg("h")
	zero := Zeros()
	SUBQ(p.w, p.columns)
	ADDQ(U8(64), p.columns)
	CMPQ(p.w, U8(32))
	JA(LabelRef("two"))
	turn := func(name string, blocks int) {
		Label(name)
		var above []Vec
		for range blocks {
			above = append(above, Zeros())
		}
		Label(name + "Row")
		p.head()
		// The upper half before a block and the lower half of it: what shifts by one
		// sample need beside the block.
		before := Halves(0x08, above[0], above[0])
		for i, b := range above {
			var after Vec
			if i+1 < len(above) {
				after = Halves(0x21, b, above[i+1])
			} else {
				after = Halves(0x81, b, b)
			}
			v := predict(align(b, before, 15), b, align(after, b, 1), zero)
			before = after
			v = Plus(v, p.residuals(i))
			VPAND(Mem{Base: p.columns, Disp: 32 * i}, v, above[i])
			VMOVDQU(above[i], Mem{Base: dst, Disp: 32 * i})
			if i == 0 {
				// The patch to the right comes next.
				PREFETCHT0(Mem{Base: dst, Disp: 64})
			}
		}
		ADDQ(row, dst)
		DECQ(h)
		JNZ(LabelRef(name + "Row"))
		if name == "one" {
			JMP(LabelRef("done"))
		}
	}
	turn("one", 1)
	turn("two", 2)
	Label("done")
	finish(p)
}

// wideRows decodes patches with the row above in memory.
func wideRows(t constants) {
	Kernel("wideRowsAVX2", "func(dst, src *byte, size, w, h int) int",
		`decodes a patch into a plane, of which dst is the first sample. It writes a multiple of 32 samples of
each row, and a zero. It returns how many bytes of src it took, or -1; it may look at overRead bytes more than size.`)
	p := newPatch(t)
	dst, h := Arg("dst"), Arg("h")
	zero := Zeros()
	// The last block, and the mask of it: 1 to 32 samples.
	last, m := GP64(), GP64()
	LEAQ(Mem{Base: p.w, Disp: -1}, last)
	ANDQ(I32(^31), last)
	LEAQ(Mem{Base: last, Disp: 64}, m)
	SUBQ(p.w, m)
	mask := Loaded(Mem{Base: p.columns, Index: m, Scale: 1})
	Label("row")
	p.head()
	x := GP64()
	XORQ(x, x)
	block := func() {
		at := func(d int) Vec { return Loaded(Mem{Base: dst, Index: x, Scale: 1, Disp: d - stride}) }
		v := predict(at(-1), at(0), at(1), zero)
		r := p.residuals(0)
		VPADDB(r, v, v)
		for _, g := range p.group {
			LEAQ(Mem{Base: g, Index: p.nbits, Scale: 4}, g)
		}
		CMPQ(x, last)
		JE(LabelRef("last"))
		VMOVDQU(v, Mem{Base: dst, Index: x, Scale: 1})
		ADDQ(U8(32), x)
		JMP(LabelRef("block"))
		Label("last")
		VPAND(mask, v, v)
		VMOVDQU(v, Mem{Base: dst, Index: x, Scale: 1})
		MOVB(U8(0), Mem{Base: dst, Index: x, Scale: 1, Disp: 32})
	}
	Label("block")
	block()
	ADDQ(U32(stride), dst)
	DECQ(h)
	JNZ(LabelRef("row"))
	finish(p)
}

// finish returns the position after the last row, or -1 from label fail.
func finish(p *patch) {
	Store(p.pos, ReturnIndex(0))
	VZEROUPPER()
	RET()
	Label("fail")
	VZEROUPPER()
	none := GP64()
	MOVQ(I32(-1), none)
	Store(none, ReturnIndex(0))
	RET()
}
