package kernel

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sync"
	"unsafe"

	"github.com/pipefs/pipefs/transcode"
)

// This file is what the host and the kernels agree on. The same for CUDA, records.cuh, and
// for Python, ../../python/pipefs_gpu_abi.py, are written from it.
//
//go:generate go test -run TestABI -update .

const (
	lanes = 32 // threads of a warp, and rows of a band
	warps = 2  // of a block; each decodes a patch
	// Threads are those of a block.
	Threads = lanes * warps

	// Alignment is that of the beginnings of files and records.
	Alignment = 16
	// Padding is how many bytes, zeros, have to follow a file.
	Padding = 16
	// narrow is the width up to which patches of version 2 need no scratch row.
	narrow = 256
)

// Limits of what the kernels decode; all else is left to a processor.
const (
	maxPatch   = 1 << 28 // bytes: positions are counted in bits
	maxPatches = 1 << 27 // of a picture: the status has their number
	maxFile    = 1<<32 - 1<<16
	maxWidth   = 1 << 16 // of a patch of version 2
)

// entries are the kernels, by version, number of channels and depth.
var entries = [...]string{"l3v1_1", "l3v1_3", "l3v2_1", "l3v2_2", "l3v2_3", "l3v2_4", "l3v2_1w", "l3v2_2w", "l3v2_3w", "l3v2_4w"}

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

// PictureRecord is what the kernels read of a picture. Distances are in bytes, and may be
// negative; with addresses, they are multiples of the size of an element.
type PictureRecord struct {
	Src           uint64 // address of the file
	Dst           uint64 // address of sample 0 of pixel 0, 0
	Row           int64  // from a row to the next one, of 32 bits with sign
	Pixel         int64  // from a pixel to the next one, the same
	Channel       int64  // from a channel to the next one
	Width, Height uint32
	PatchWidth    uint32 // as in the file; N in version 1
	PatchHeight   uint32
	Channels      uint8
	Depth         uint8      // bits of a sample, 8 or 16
	Output        uint8      // see Output
	Version       uint8      // of the file, 1 or 2
	Columns       uint32     // patches from the left edge to the right one
	Scale, Bias   [4]float32 // of each channel of the picture
}

// PatchRecord is what the kernels read of a patch.
type PatchRecord struct {
	Picture uint32 // which one
	Index   uint32 // which patch of it, row by row, less than 2^27
	// Offset in the file, and Length in bytes. Version 1: of the bytes of each channel.
	// Version 2: the first are those of the patch, at most 2^28 bytes; Offset[1] and [2]
	// are the lower and the upper half of the address of its scratch row, or 0.
	Offset, Length [3]uint32
}

// Params are the parameters of an entry.
type Params struct {
	Pictures uint64 // address of the records of all pictures
	Patches  uint64 // of those of its patches
	Count    uint32 // of its patches
	_        uint32
	Statuses uint64 // address of those of all pictures
}

// Bytes are the parameters as they are handed over.
func (p Params) Bytes() []byte { return bytesOf([]Params{p}) }

// The lengths of the records of a picture and a patch, and of the status of a picture. All
// bytes of a status have to be 0xff before the launches.
const (
	PictureLen = 96
	PatchLen   = 32
	StatusLen  = 4
)

var (
	_ [PictureLen]byte = [unsafe.Sizeof(PictureRecord{})]byte{}
	_ [PatchLen]byte   = [unsafe.Sizeof(PatchRecord{})]byte{}
)

// bytesOf are records as they lie in memory. The hosts of GPUs are little-endian.
func bytesOf[T PictureRecord | PatchRecord | Params](records []T) []byte {
	if len(records) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&records[0])), len(records)*int(unsafe.Sizeof(records[0])))
}

// refusals say why a patch was refused, by the number in its status. The names are those of
// CUDA.
var refusals = [...]struct {
	name string
	kind error
	says string
}{
	1: {"BAD_HEADER", transcode.ErrBad, "its head is damaged"},
	2: {"TRUNCATED", transcode.ErrTruncated, "it is shorter than its parts"},
	3: {"BAD_LENGTHS", transcode.ErrBad, "it is longer than its parts"},
	4: {"BAD_BLOCKS", transcode.ErrBad, "a block is damaged"},
	5: {"BAD_STREAMS", transcode.ErrBad, "a stream is damaged"},
	6: {"BAD_ROWS", transcode.ErrBad, "its rows are damaged"},
	7: {"NO_SCRATCH", transcode.ErrInternal, "it has no scratch row"},
}

//go:embed l3.75.ptx.gz
var packed75 []byte

//go:embed l3.90.ptx.gz
var packed90 []byte

// Portable and Hopper are the program: l3.cu in the form that NVIDIA's drivers compile
// when it is loaded. Portable is for compute capability 7.5 and later, Hopper for 9.0 and
// later, where it takes fewer instructions. scripts/ptx makes both.
var (
	Portable = sync.OnceValues(func() ([]byte, error) { return unpack(packed75) })
	Hopper   = sync.OnceValues(func() ([]byte, error) { return unpack(packed90) })
)

// PTX returns the program for GPUs of compute capability major.x.
func PTX(major int) ([]byte, error) {
	if major >= 9 {
		return Hopper()
	}
	return Portable()
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
