package kernel

import (
	"encoding/binary"
	"math"
)

// The records of the kernels, see doc.go; abi.cuh has the same.
const (
	pictureLen = 96
	patchLen   = 32
	// StatusLen is the length of a picture's status. All of its bytes have to be 0xff
	// before the launches.
	StatusLen = 4
)

// The shape of a launch: a warp decodes a patch.
const (
	warps = 2
	// Threads are those of a block.
	Threads = 32 * warps
)

const (
	// Alignment is that of the beginnings of files and records.
	Alignment = 16
	// Padding is how many bytes, zeros, have to follow a file.
	Padding = 16
	// narrow is the width up to which patches of version 2 need no scratch row.
	narrow = 256
)

// Output is what becomes of a sample.
type Output uint8

// AsStored are bytes, or uint16 for 16 bits. The others are numbers: sample*Scale+Bias,
// rounded to float32 after the product and after the sum, and for Float16 once more.
const (
	AsStored Output = iota
	Float32
	Float16
)

// size is the length of an element.
func (o Output) size(depth int) int64 {
	switch o {
	case Float32:
		return 4
	case Float16:
		return 2
	}
	return int64(depth / 8)
}

// pictureRecord is Picture of abi.cuh.
type pictureRecord struct {
	source, destination                    uint64 // 0, 8
	row, pixel, channel                    int64  // 16, 24, 32
	width, height, patchWidth, patchHeight uint32 // 40, 44, 48, 52
	channels, depth, output, version       uint8  // 56, 57, 58, 59
	columns                                uint32 // 60
	scale, bias                            [4]float32
}

func (r *pictureRecord) append(b []byte) []byte {
	for _, v := range []uint64{r.source, r.destination, uint64(r.row), uint64(r.pixel), uint64(r.channel)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for _, v := range []uint32{r.width, r.height, r.patchWidth, r.patchHeight} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = append(b, r.channels, r.depth, r.output, r.version)
	b = binary.LittleEndian.AppendUint32(b, r.columns)
	for _, four := range [2][4]float32{r.scale, r.bias} {
		for _, v := range four {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}

// patchRecord is Patch of abi.cuh.
type patchRecord struct {
	picture, index uint32    // 0, 4
	offset, length [3]uint32 // 8, 20
	scratch        int64     // of version 2: where in the scratch memory, or -1
}

func (r *patchRecord) append(b []byte, scratch uint64) []byte {
	if r.scratch >= 0 {
		at := scratch + uint64(r.scratch)
		r.offset[1], r.offset[2] = uint32(at), uint32(at>>32)
	}
	b = binary.LittleEndian.AppendUint32(b, r.picture)
	b = binary.LittleEndian.AppendUint32(b, r.index)
	for _, three := range [2][3]uint32{r.offset, r.length} {
		for _, v := range three {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	return b
}
