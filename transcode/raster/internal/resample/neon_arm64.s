#include "textflag.h"

// The constants of the package that are written down here: positions is 4, precision 22, and
// half 1<<21. A number in a macro is that of a register.

// What the assembler does not know. V0 has the weights, as words of 16 bits; i is which of
// them. n is the register that is multiplied: SMLAL its lower four words, SMLAL2 its upper
// four, MLA all eight. Products are added to d: of SMLAL as 32 bits, of MLA the lower 16.
#define WEIGHT(i) ((((i)>>2)&1)<<11 | (((i)>>1)&1)<<21 | ((i)&1)<<20)
#define SMLAL(i, n, d) WORD $(0x0F402000 | WEIGHT(i) | (n)<<5 | (d))
#define SMLAL2(i, n, d) WORD $(0x4F402000 | WEIGHT(i) | (n)<<5 | (d))
#define MLA(i, n, d) WORD $(0x6F400000 | WEIGHT(i) | (n)<<5 | (d))

// SHLL widens words to 32 bits, those in the upper half. INTEGER takes the integer part of
// sums of 32 bits. NARROW and CLIP make them words, and bytes, without sign, and saturate.
#define SHLL(n, d) WORD $(0x2E613800 | (n)<<5 | (d))
#define SHLL2(n, d) WORD $(0x6E613800 | (n)<<5 | (d))
#define INTEGER(d) WORD $(0x4F2A0400 | (d)<<5 | (d))
#define NARROW(n, d) WORD $(0x2E612800 | (n)<<5 | (d))
#define NARROW2(n, d) WORD $(0x6E612800 | (n)<<5 | (d))
#define CLIP(n, d) WORD $(0x2E214800 | (n)<<5 | (d))
#define CLIP2(n, d) WORD $(0x6E214800 | (n)<<5 | (d))

// The arguments of all kernels of the horizontal pass.
#define ARGUMENTS \
	MOVD dst+0(FP), R0 \
	MOVD dstStride+8(FP), R1 \
	MOVD src+16(FP), R2 \
	MOVD srcStride+24(FP), R3 \
	MOVD entry+32(FP), R4 \
	MOVD step+40(FP), R5 \
	MOVD turns+48(FP), R6 \
	MOVD quads+56(FP), R7 \
	MOVW $(1<<21), R8 \
	VDUP R8, V3.S4 \
	MOVD $patterns<>(SB), R8

// A pattern of patterns says which bytes become words: taps 0 and 1, then taps 2 and 3, each
// with the words of all rows and channels; and then which bytes a row of four positions has.
DATA patterns<>+0(SB)/8, $0xff0cff08ff04ff00 // one channel, four rows
DATA patterns<>+8(SB)/8, $0xff0dff09ff05ff01
DATA patterns<>+16(SB)/8, $0xff0eff0aff06ff02
DATA patterns<>+24(SB)/8, $0xff0fff0bff07ff03
DATA patterns<>+32(SB)/8, $0x0d0905010c080400
DATA patterns<>+40(SB)/8, $0x0f0b07030e0a0602
DATA patterns<>+48(SB)/8, $0xffffff02ff01ff00 // three channels, one row
DATA patterns<>+56(SB)/8, $0xffffff05ff04ff03
DATA patterns<>+64(SB)/8, $0xffffff08ff07ff06
DATA patterns<>+72(SB)/8, $0xffffff0bff0aff09
DATA patterns<>+80(SB)/8, $0x0908060504020100
DATA patterns<>+88(SB)/8, $0xffffffff0e0d0c0a
DATA patterns<>+96(SB)/8, $0xff03ff02ff01ff00 // four channels, one row
DATA patterns<>+104(SB)/8, $0xff07ff06ff05ff04
DATA patterns<>+112(SB)/8, $0xff0bff0aff09ff08
DATA patterns<>+120(SB)/8, $0xff0fff0eff0dff0c
GLOBL patterns<>(SB), RODATA|NOPTR, $128

// ROWS has the addresses of four rows, a stride apart.
#define ROWS(p, stride, a, b, c, d) \
	MOVD p, a \
	ADD stride, a, b \
	ADD stride, b, c \
	ADD stride, c, d

// BEGIN clears a register's sums of the low and of the high parts.
#define BEGIN(low, high) \
	VMOV V3.B16, low.B16 \
	VEOR high.B16, high.B16, high.B16

// QUAD adds four taps of the pixels in V24.
#define QUAD(low, high) \
	VTBL V1.B16, [V24.B16], V25.B16 \
	VTBL V2.B16, [V24.B16], V26.B16 \
	SMLAL(0, 25, low) \
	SMLAL(2, 25, high) \
	SMLAL2(1, 25, low) \
	SMLAL2(3, 25, high) \
	SMLAL(4, 26, low) \
	SMLAL(6, 26, high) \
	SMLAL2(5, 26, low) \
	SMLAL2(7, 26, high)

// END makes bytes of the sums in V16 and so on, and of the high ones in V20 and so on.
#define END(low, high, l) \
	VSHL $16, high.S4, high.S4 \
	VADD high.S4, low.S4, low.S4 \
	INTEGER(l)

// FIRST finds the first tap of a position, in R9, and its weights, in R10.
#define FIRST \
	MOVW (R4), R9 \
	ADD $4, R4, R10 \
	ADD R5, R4

// Four rows of three or four channels: R11 to R14.
#define QUAD4(bytes, again) \
again: \
	VLD1.P 16(R10), [V0.B16] \
	VLD1 (R11), [V24.B16] \
	QUAD(16, 20) \
	VLD1 (R12), [V24.B16] \
	QUAD(17, 21) \
	VLD1 (R13), [V24.B16] \
	QUAD(18, 22) \
	VLD1 (R14), [V24.B16] \
	QUAD(19, 23) \
	ADD $bytes, R11 \
	ADD $bytes, R12 \
	ADD $bytes, R13 \
	ADD $bytes, R14 \
	SUBS $1, R15 \
	BNE again

#define POSITION4(narrow, a, b, c, d, bytes, again) \
	ADD R2, R9 \
	ROWS(R9, R3, R11, R12, R13, R14) \
	BEGIN(V16, V20) \
	BEGIN(V17, V21) \
	BEGIN(V18, V22) \
	BEGIN(V19, V23) \
	MOVD R7, R15 \
	QUAD4(bytes, again) \
	END(V16, V20, 16) \
	END(V17, V21, 17) \
	END(V18, V22, 18) \
	END(V19, V23, 19) \
	narrow(16, a) \
	narrow(17, b) \
	narrow(18, c) \
	narrow(19, d)

// BYTES makes 16 bytes of two registers of words.
#define BYTES(a, b, d) \
	CLIP(a, d) \
	CLIP2(b, d)

// func horizontal3(dst *byte, dstStride int, src *byte, srcStride int, entry *uint32, step, turns, quads int)
TEXT ·horizontal3(SB), NOSPLIT, $0-64
	ARGUMENTS
	ADD $48, R8
	VLD1 (R8), [V1.B16, V2.B16]
	ADD $32, R8
	VLD1 (R8), [V31.B16]
#define SCALE ADD R9<<1, R9
turn:
	FIRST
	SCALE
	POSITION4(NARROW, 4, 5, 6, 7, 12, quad0)
	FIRST
	SCALE
	POSITION4(NARROW2, 4, 5, 6, 7, 12, quad1)
	FIRST
	SCALE
	POSITION4(NARROW, 8, 9, 10, 11, 12, quad2)
	FIRST
	SCALE
	POSITION4(NARROW2, 8, 9, 10, 11, 12, quad3)
	ROWS(R0, R1, R11, R12, R13, R14)
	BYTES(4, 8, 24)
	VTBL V31.B16, [V24.B16], V24.B16
	VST1 [V24.B16], (R11)
	BYTES(5, 9, 25)
	VTBL V31.B16, [V25.B16], V25.B16
	VST1 [V25.B16], (R12)
	BYTES(6, 10, 26)
	VTBL V31.B16, [V26.B16], V26.B16
	VST1 [V26.B16], (R13)
	BYTES(7, 11, 27)
	VTBL V31.B16, [V27.B16], V27.B16
	VST1 [V27.B16], (R14)
	ADD $12, R0
	SUBS $1, R6
	BNE turn
	RET
#undef SCALE

// func horizontal4(dst *byte, dstStride int, src *byte, srcStride int, entry *uint32, step, turns, quads int)
TEXT ·horizontal4(SB), NOSPLIT, $0-64
	ARGUMENTS
	ADD $96, R8
	VLD1 (R8), [V1.B16, V2.B16]
turn:
	FIRST
	LSL $2, R9
	POSITION4(NARROW, 4, 5, 6, 7, 16, quad0)
	FIRST
	LSL $2, R9
	POSITION4(NARROW2, 4, 5, 6, 7, 16, quad1)
	FIRST
	LSL $2, R9
	POSITION4(NARROW, 8, 9, 10, 11, 16, quad2)
	FIRST
	LSL $2, R9
	POSITION4(NARROW2, 8, 9, 10, 11, 16, quad3)
	ROWS(R0, R1, R11, R12, R13, R14)
	BYTES(4, 8, 24)
	VST1 [V24.B16], (R11)
	BYTES(5, 9, 25)
	VST1 [V25.B16], (R12)
	BYTES(6, 10, 26)
	VST1 [V26.B16], (R13)
	BYTES(7, 11, 27)
	VST1 [V27.B16], (R14)
	ADD $16, R0
	SUBS $1, R6
	BNE turn
	RET

// POSITION2 is one position of two registers, that are loaded by load.
#define POSITION2(load, narrow, a, b, again) \
	BEGIN(V16, V20) \
	BEGIN(V17, V21) \
	MOVD R7, R15 \
again: \
	VLD1.P 16(R10), [V0.B16] \
	load \
	SUBS $1, R15 \
	BNE again \
	END(V16, V20, 16) \
	END(V17, V21, 17) \
	narrow(16, a) \
	narrow(17, b)

// Four rows of one channel in a register: R11 to R14, and R19 to R22.
#define LOAD1 \
	VLD1.P 4(R11), V24.S[0] \
	VLD1.P 4(R12), V24.S[1] \
	VLD1.P 4(R13), V24.S[2] \
	VLD1.P 4(R14), V24.S[3] \
	QUAD(16, 20) \
	VLD1.P 4(R19), V24.S[0] \
	VLD1.P 4(R20), V24.S[1] \
	VLD1.P 4(R21), V24.S[2] \
	VLD1.P 4(R22), V24.S[3] \
	QUAD(17, 21)

#define FIRST1 \
	FIRST \
	ADD R2, R9 \
	ROWS(R9, R3, R11, R12, R13, R14) \
	ADD R3, R14, R9 \
	ROWS(R9, R3, R19, R20, R21, R22)

// func horizontal1(dst *byte, dstStride int, src *byte, srcStride int, entry *uint32, step, turns, quads int)
TEXT ·horizontal1(SB), NOSPLIT, $0-64
	ARGUMENTS
	VLD1 (R8), [V1.B16, V2.B16]
	ADD $32, R8
	VLD1 (R8), [V31.B16]
turn:
	FIRST1
	POSITION2(LOAD1, NARROW, 4, 5, quad0)
	FIRST1
	POSITION2(LOAD1, NARROW2, 4, 5, quad1)
	FIRST1
	POSITION2(LOAD1, NARROW, 8, 9, quad2)
	FIRST1
	POSITION2(LOAD1, NARROW2, 8, 9, quad3)
	ROWS(R0, R1, R11, R12, R13, R14)
	ADD R1, R14, R9
	ROWS(R9, R1, R19, R20, R21, R22)
	BYTES(4, 8, 24)
	VTBL V31.B16, [V24.B16], V24.B16
	VST1 V24.S[0], (R11)
	VST1 V24.S[1], (R12)
	VST1 V24.S[2], (R13)
	VST1 V24.S[3], (R14)
	BYTES(5, 9, 25)
	VTBL V31.B16, [V25.B16], V25.B16
	VST1 V25.S[0], (R19)
	VST1 V25.S[1], (R20)
	VST1 V25.S[2], (R21)
	VST1 V25.S[3], (R22)
	ADD $4, R0
	SUBS $1, R6
	BNE turn
	RET

// COLUMNS adds a row of 16 columns with the weights low and high.
#define COLUMNS(low, high) \
	VLD1 (R9), [V24.B16] \
	ADD R2, R9 \
	VUXTL V24.B8, V25.H8 \
	VUXTL2 V24.B16, V26.H8 \
	SMLAL(low, 25, 16) \
	SMLAL2(low, 25, 17) \
	SMLAL(low, 26, 18) \
	SMLAL2(low, 26, 19) \
	MLA(high, 25, 20) \
	MLA(high, 26, 21)

// func vertical(dst, src *byte, stride, n int, entry *uint32, pairs int)
TEXT ·vertical(SB), NOSPLIT, $0-48
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD stride+16(FP), R2
	MOVD n+24(FP), R3
	MOVD entry+32(FP), R4
	MOVD pairs+40(FP), R5
	MOVW $(1<<21), R8
	VDUP R8, V3.S4
	ADD $4, R4
	MOVD $0, R6 // the first column of a turn
	SUB $16, R3 // that of the last turn
columns:
	ADD R1, R6, R9
	MOVD R4, R10
	MOVD R5, R15
	VMOV V3.B16, V16.B16
	VMOV V3.B16, V17.B16
	VMOV V3.B16, V18.B16
	VMOV V3.B16, V19.B16
	VEOR V20.B16, V20.B16, V20.B16
	VEOR V21.B16, V21.B16, V21.B16
pair:
	VLD1.P 8(R10), [V0.B8]
	COLUMNS(0, 2)
	COLUMNS(1, 3)
	SUBS $1, R15
	BNE pair
	SHLL(20, 24)
	SHLL2(20, 25)
	SHLL(21, 26)
	SHLL2(21, 27)
	VADD V24.S4, V16.S4, V16.S4
	VADD V25.S4, V17.S4, V17.S4
	VADD V26.S4, V18.S4, V18.S4
	VADD V27.S4, V19.S4, V19.S4
	INTEGER(16)
	INTEGER(17)
	INTEGER(18)
	INTEGER(19)
	NARROW(16, 24)
	NARROW2(17, 24)
	NARROW(18, 25)
	NARROW2(19, 25)
	BYTES(24, 25, 26)
	ADD R0, R6, R9
	VST1 [V26.B16], (R9)

	// The last turn may repeat some of what was done before.
	CMP R3, R6
	BEQ done
	ADD $16, R6
	CMP R3, R6
	BLE columns
	MOVD R3, R6
	B columns
done:
	RET
