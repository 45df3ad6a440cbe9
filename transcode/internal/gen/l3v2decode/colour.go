package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// masks are those of a colour transform, see colourMasks of package v2.
func mask(name string, masks reg.Register) Mem { return Addr(Struct("masks", masks).Field(name)) }

// colours inverts the colour transform of rows and writes them to where they are wanted.
// Samples of 1 byte are taken 32 at a time, those of 2 bytes 16.
func colours() {
	const params = "dst *byte, row int, src *byte, lane, channel int, w, h int, masks *colourMasks"
	const doc = " of h rows of w pixels, at least 32. The one at dst comes\nfrom the samples at src; lane and channel are the distances to the next row and channel."
	for _, size := range []int{1, 2} {
		name := map[int]string{1: "", 2: "Wide"}[size]
		spread := spreads(size)
		orders := []string{"rgb", "bgr"}
		if size == 2 { // BMP files have 8 bits
			orders = orders[:1]
		}
		for _, order := range orders {
			Kernel(order+name+"AVX2", "func("+params+")", "writes the "+order+" pixels"+doc)
			eachBlock(size, 3, func(dst, i reg.GPVirtual, v [4]Vec) {
				at := GP64()
				LEAQ(Mem{Base: i, Index: i, Scale: 2}, at)
				if size == 2 {
					ADDQ(at, at)
				}
				ADDQ(dst, at)
				if order == "bgr" {
					v[0], v[2] = v[2], v[0]
				}
				for o := range 3 {
					d := Shuffle(v[0], spread[0][o])
					d = Or(d, Shuffle(v[1], spread[1][o]))
					d = Or(d, Shuffle(v[2], spread[2][o]))
					VMOVDQU(d.AsX(), Mem{Base: at, Disp: 16 * o})
					VEXTRACTI128(U8(1), d, Mem{Base: at, Disp: 48 + 16*o})
				}
			})
		}
		Kernel("rgba"+name+"AVX2", "func("+params+")", "writes the rgba pixels"+doc)
		eachBlock(size, 4, func(dst, i reg.GPVirtual, v [4]Vec) {
			at := GP64()
			LEAQ(Mem{Base: dst, Index: i, Scale: uint8(4 * size)}, at)
			low, high, lowPair, highPair := VPUNPCKLBW, VPUNPCKHBW, VPUNPCKLWD, VPUNPCKHWD
			if size == 2 {
				low, high, lowPair, highPair = VPUNPCKLWD, VPUNPCKHWD, VPUNPCKLDQ, VPUNPCKHDQ
			}
			rgLow, rgHigh := Apply(low, v[0], v[1]), Apply(high, v[0], v[1])
			baLow, baHigh := Apply(low, v[2], v[3]), Apply(high, v[2], v[3])
			for o, d := range []Vec{Apply(lowPair, rgLow, baLow), Apply(highPair, rgLow, baLow), Apply(lowPair, rgHigh, baHigh), Apply(highPair, rgHigh, baHigh)} {
				VMOVDQU(d.AsX(), Mem{Base: at, Disp: 16 * o})
				VEXTRACTI128(U8(1), d, Mem{Base: at, Disp: 64 + 16*o})
			}
		})
		Kernel("planes"+name+"AVX2", "func("+params+", plane int)",
			"writes the red, green and blue samples"+doc+"\nThe channels are written at distances of plane.")
		eachBlock(size, 3, func(dst, i reg.GPVirtual, v [4]Vec) {
			at, plane := GP64(), ArgAddr("plane")
			LEAQ(Mem{Base: dst, Index: i, Scale: uint8(size)}, at)
			for c := range 3 {
				VMOVDQU(v[c], Mem{Base: at})
				if c < 2 {
					ADDQ(plane, at)
				}
			}
		})
	}
}

// spreads returns what moves 16 bytes of samples of channel c, in each half, to where
// they are in the o-th 16 of 48 bytes of pixels.
func spreads(size int) (spread [3][3]Mem) {
	for c := range 3 {
		for o := range 3 {
			spread[c][o] = Data32(fmt.Sprintf("spread%d%d%d", size, c, o), func(i int) byte {
				at := 16*o + i%16
				if at/size%3 == c {
					return byte(at/size/3*size + at%size)
				}
				return 0xff
			})
		}
	}
	return spread
}

// eachBlock inverts the colour transform of 32 bytes of samples at a time and calls write
// with them: red, green, blue, and alpha if there are 4 channels.
func eachBlock(size, channels int, write func(dst, i reg.GPVirtual, v [4]Vec)) {
	dst, src, channel := Arg("dst"), Arg("src"), Arg("channel")
	w, h, masks := Arg("w"), Arg("h"), Arg("masks")
	add, mean := Plus, Average
	if size == 2 {
		add = func(a, b Op) Vec { return Apply(VPADDW, a, b) }
		mean = func(a, b Op) Vec { return Apply(VPAVGW, a, b) }
	}
	pixels := lanes / size
	SUBQ(U8(pixels), w)
	Label("row")
	i := GP64()
	XORQ(i, i)
	Label("block")
	at := GP64()
	LEAQ(Mem{Base: src, Index: i, Scale: 1}, at)
	var coded [4]Vec
	for c := range channels {
		if c > 0 {
			ADDQ(channel, at)
		}
		if size == 1 {
			coded[c] = Loaded(Mem{Base: at})
			continue
		}
		coded[c] = YMM()
		upper := YMM()
		VPMOVZXBW(Mem{Base: at}, coded[c])
		ADDQ(channel, at)
		VPMOVZXBW(Mem{Base: at}, upper)
		VPSLLW(U8(8), upper, upper)
		coded[c] = Or(coded[c], upper)
	}
	g := coded[0]
	centre := Loaded(mask("centre", masks))
	u := And(g, mask("colour", masks))
	r := Xor(add(coded[1], u), centre)
	u = Xor(u, And(Xor(u, mean(r, g)), mask("average", masks)))
	b := Xor(add(coded[2], u), centre)
	write(dst, i, [4]Vec{r, g, b, coded[3]})
	// The last block of a row overlaps the one before if it has to.
	CMPQ(i, w)
	JE(LabelRef("next"))
	ADDQ(U8(pixels), i)
	CMPQ(i, w)
	CMOVQGT(w, i)
	JMP(LabelRef("block"))
	Label("next")
	ADDQ(ArgAddr("lane"), src)
	ADDQ(ArgAddr("row"), dst)
	DECQ(h)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// words is for channels of 16 bits that have no colour transform.
func words() {
	Kernel("wordsAVX2", "func(dst *byte, src *byte, channel int, w int)",
		"joins the lower bytes of w samples, at least 32, with the upper bytes in the next\nchannel.")
	dst, src, channel, w := Arg("dst"), Arg("src"), Arg("channel"), Arg("w")
	SUBQ(U8(lanes/2), w)
	i := GP64()
	XORQ(i, i)
	ADDQ(src, channel)
	Label("block")
	low, high := YMM(), YMM()
	VPMOVZXBW(Mem{Base: src, Index: i, Scale: 1}, low)
	VPMOVZXBW(Mem{Base: channel, Index: i, Scale: 1}, high)
	VPSLLW(U8(8), high, high)
	VMOVDQU(Or(low, high), Mem{Base: dst, Index: i, Scale: 2})
	CMPQ(i, w)
	JE(LabelRef("done"))
	ADDQ(U8(lanes/2), i)
	CMPQ(i, w)
	CMOVQGT(w, i)
	JMP(LabelRef("block"))
	Label("done")
	VZEROUPPER()
	RET()
}

// cpuid is for what golang.org/x/sys/cpu does not tell.
func cpuid() {
	TEXT("cpuid", NOSPLIT, "func(leaf uint32) (a, b, c, d uint32)")
	Doc("cpuid is the instruction.")
	Load(Param("leaf"), reg.EAX)
	XORL(reg.ECX, reg.ECX)
	CPUID()
	Store(reg.EAX, Return("a"))
	Store(reg.EBX, Return("b"))
	Store(reg.ECX, Return("c"))
	Store(reg.EDX, Return("d"))
	RET()
}
