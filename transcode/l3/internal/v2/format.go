// Package v2 is version 2 of the L3 format at the level of patches: rectangles of
// a picture that are coded on their own. docs/l3.md specifies the format; package
// l3 puts patches into files.
//
// # Nouns
//
// The sides of a patch are its width and height. Rows are carried by 32 lanes, row
// y by lane y mod 32; 32 rows are a band. A column is the 32 samples, one a lane,
// of one step. Lane r is r samples behind lane 0, so that the samples to the left, above and
// above left of a sample, from which it is predicted, were decoded in earlier steps.
// A block is 8 steps of 8 lanes, 64 samples. Its code says how its residuals are
// stored: not at all, raw with so many bits, or as Rice codes, whose remainders
// are raw and whose quotients are planes of bits in streams of their own.
//
// The decoder works on a unit at a time, 16 steps: it unpacks the blocks to columns,
// makes samples of the residuals, and writes these to rows of the band. A band that is
// complete is copied to the target.
//
// A residual is the difference of a sample and its prediction; in a block it is zigzag-coded:
// 0, -1, 1, -2 … become 0, 1, 2, 3 ….
package v2

// What a patch is made of. All numbers are little-endian, bits are counted from
// the lowest one of the first byte.
//
//	u8        colour transform, see the colours below
//	u8        predictors: two bits for each channel, the first one lowest
//	u8        flags
//	u8        0
//	8 × u32   lengths of the streams in bytes, with flagRice only
//	G·C × u16 codes: for each group of 8 steps and channel one, whose bits 4b to
//	          4b+3 are the code of lanes 8b to 8b+7
//	          the raw parts of all blocks
//	          streams 0 to 7, one after another, with flagRice only
//
// Blocks come in the order of the codes: by step group, then channel, then lane
// group. The offset of a block's raw part is the sum of the lengths before it.
const (
	lanes      = 32
	blockSteps = 8 // also the lanes of a block
	// minBand is the least number of positions of a band. Lane 31 is 31 steps behind lane 0,
	// so the row above lane 0 is decoded in time for the next band, even 16 steps at a time.
	minBand = 64
	streams = 8
	headLen = 4
	// TailLen is how many readable bytes have to follow a patch: decoders read 8
	// bytes at a time.
	TailLen = 8

	flagRice = 1 // Rice codes may occur, and streams are there
)

// Colour transforms of the first three channels, modulo 256 (or 65536). The
// channels of a patch are G, R', B', whatever the order of the picture; those of
// pictures with fewer than three are left alone, and so is alpha.
const (
	colourNone = iota // R' = R, B' = B
	colourG           // R' = R-G+128, B' = B-G+128
	colourAvg         // R' = R-G+128, B' = B-avg(R,G)+128
	colours
)

// Predictors, from the samples to the left (L), above (T) and above left (TL);
// avg(a,b) is (a+b+1)>>1.
const (
	predMED = iota // the median of L, T and L+T-TL, clamped: mx+mn-min(max(TL,mn),mx)
	predAvg        // avg(L, T)
	predMix        // avg(MED, avg(L, T))
	preds
)

// Codes of a block. 0 is a block of zeros; 1 to 8 are raw samples of so many bits;
// from codeRice on they are Rice codes with code-codeRice raw bits.
const (
	codeRice = 9
	codes    = 16
	// planes is how many bits of a quotient are coded as planes; a quotient that
	// has all of them is an escape.
	planes = 8
	// maxQuotients is how many samples of a Rice block may have a quotient that is
	// not 0. What is left of them then fits into one read of 8 bytes.
	maxQuotients = 56
)

// rawLen is the length of a block's raw part in units of 8 bytes, by code: one for
// each bit of its samples, and one for plane 1 of a Rice code.
var rawLen = [codes]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7}

// geometry is what follows from the sides of a patch.
type geometry struct {
	width, height int
	band          int // positions of a band: W
	bands         int
	groups        int // of 8 steps: G
}

func geometryOf(width, height int) geometry {
	g := geometry{width: width, height: height, band: max(width, minBand), bands: (height + lanes - 1) / lanes}
	g.groups = (g.bands*g.band + lanes - 1 + blockSteps - 1) / blockSteps
	return g
}
