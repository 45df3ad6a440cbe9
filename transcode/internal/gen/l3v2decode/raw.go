package main

import (
	"encoding/binary"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// recordLen is the length of what raw leaves of each block for quotients.
var recordLen = target.Size("blockRecord")

// ofRecord is a field of the record of the b-th block from a register on.
func ofRecord(record reg.Register, b int, field string) Mem {
	return Addr(Struct("records", record).Field(field)).Offset(b * recordLen)
}

// An entry of the table of codes.
const (
	entryMask   = 0 // the bits of a field, in each byte
	entryBits   = 8
	entryRice   = 16 // all bits of Rice codes
	entryForbid = 24
	entryLog    = 5
)

func codeTable() Mem {
	b := make([]byte, 0, 16<<entryLog)
	add := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	for code := range 16 {
		bits, rice, forbid := code, uint64(0), uint64(0)
		if code >= codeRice {
			bits, rice = code-codeRice, math.MaxUint64
			// The only one whose quotients of fewer than 8 can be too large.
			if bits == 6 {
				forbid = math.MaxUint64
			}
		}
		add(0x0101010101010101 * (1<<bits - 1))
		add(uint64(bits))
		add(rice)
		add(forbid)
	}
	return Data("codes", b)
}

// raw decodes the raw parts of blocks: each row of 8 fields becomes 8 bytes of a
// column. Nothing depends on the codes but numbers, so there is nothing to mispredict.
func raw() {
	table := codeTable()
	for _, rice := range []bool{false, true} {
		name, signature, doc := "rawAVX2", "func(z *byte, src *byte, codes *byte, words int) int",
			"decodes the raw parts of the blocks of some code words without Rice codes,\nand returns their length."
		if rice {
			name, signature, doc = "riceRawAVX2", "func(z *byte, src *byte, codes *byte, words int, records *blockRecord) int",
				"is rawAVX2 for all codes. It writes a record of each block."
		}
		Kernel(name, signature, doc)
		z, src, codes, words := Arg("z"), Arg("src"), Arg("codes"), Arg("words")
		entries, record := GP64(), GP64()
		LEAQ(table, entries)
		if rice {
			Load(Param("records"), record)
		}
		start := GP64()
		MOVQ(src, start)
		Label("word")
		word := GP64()
		MOVWQZX(Mem{Base: codes}, word)
		// An entry's offset is the code times its length.
		SHLQ(U8(entryLog), word)
		for b := range 4 {
			entry, mask, bits, t := GP64(), GP64(), GP64(), GP64()
			MOVQ(word, entry)
			if b > 0 {
				SHRQ(U8(4*b), entry)
			}
			ANDL(U32(15<<entryLog), entry.As32())
			ADDQ(entries, entry)
			MOVQ(Mem{Base: entry, Disp: entryMask}, mask)
			MOVQ(Mem{Base: entry, Disp: entryBits}, bits)
			if rice {
				is := GP64()
				MOVQ(Mem{Base: entry, Disp: entryRice}, is)
				MOVQ(Mem{Base: src}, t)
				ANDQ(is, t)
				MOVQ(t, ofRecord(record, b, "ones"))
				ANDL(U8(8), is.As32())
				ADDQ(is, src)
				MOVQ(bits, ofRecord(record, b, "bits"))
				MOVQ(Mem{Base: entry, Disp: entryForbid}, t)
				MOVQ(t, ofRecord(record, b, "forbidden"))
			}
			for j := range blockSteps {
				MOVQ(Mem{Base: src}, t)
				PDEPQ(mask, t, t)
				ADDQ(bits, src)
				MOVQ(t, Mem{Base: z, Disp: j*lanes + b*8})
			}
		}
		ADDQ(U8(2), codes)
		ADDQ(U32(columnsLen), z)
		if rice {
			SUBQ(I8(-4*recordLen), record)
		}
		DECQ(words)
		JNZ(LabelRef("word"))
		SUBQ(start, src)
		Result(src)
	}
}
