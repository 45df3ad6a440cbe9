package standin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// The lengths of records, see package kernel.
const pictureLen, patchLen = 96, 32

var u32, u64 = binary.LittleEndian.Uint32, binary.LittleEndian.Uint64

// Launch runs a kernel: params are those of package kernel, and at is memory from an
// address to its end, or nil.
func Launch(params []byte, at func(address uint64) []byte) error {
	pictures, patches, statuses := at(u64(params)), at(u64(params[8:])), at(u64(params[24:]))
	count := int(u32(params[16:]))
	if pictures == nil || statuses == nil || len(patches) < count*patchLen {
		return errors.New("tables in memory of nobody")
	}
	// How long the files are only their patches say.
	ends := map[uint32]int{}
	for i := range count {
		r := patches[patchLen*i:]
		n := u32(r)
		version := pictures[pictureLen*n+59]
		for c := range 3 {
			end := int(u32(r[8+4*c:])) + int(u32(r[20+4*c:]))
			if version == 2 {
				end = (end+15)&^15 + 8
			}
			if version == 1 || c == 0 {
				ends[n] = max(ends[n], end)
			}
		}
	}
	for n, end := range ends {
		refused, err := picture(pictures[pictureLen*n:], end, at)
		if err != nil {
			return err
		}
		if refused {
			binary.LittleEndian.PutUint32(statuses[4*n:], 1)
		}
	}
	return nil
}

// picture decodes one; an error is a fault, such as memory of nobody.
func picture(r []byte, end int, at func(uint64) []byte) (refused bool, err error) {
	file := at(u64(r))
	if len(file) < end {
		return false, fmt.Errorf("a file at %x, which has no memory of %d bytes", u64(r), end)
	}
	s, err := l3.Open(file[:end:end], transcode.Limits{})
	if err != nil {
		return true, nil
	}
	channels, size := s.Mode.Channels(), s.Mode.Depth()/8
	pix := make([]byte, s.Width*s.Height*channels*size)
	if err := s.Decode(l3.Interleaved(pix, s.Width, channels, size)); err != nil {
		return true, nil
	}
	to, row, pixel, channel := u64(r[8:]), u64(r[16:]), u64(r[24:]), u64(r[32:])
	width := map[byte]int{0: size, 1: 4}[r[58]]
	if width == 0 {
		return false, fmt.Errorf("output %d, which tests of this do not need", r[58])
	}
	for i := range s.Width * s.Height * channels {
		x, y, c := i/channels%s.Width, i/channels/s.Width, i%channels
		dst := at(to + uint64(y)*row + uint64(x)*pixel + uint64(c)*channel)
		if len(dst) < width {
			return false, fmt.Errorf("a sample at %d, %d in memory of nobody", x, y)
		}
		if r[58] == 0 {
			copy(dst[:size], pix[i*size:])
			continue
		}
		v := uint16(pix[i*size])
		if size == 2 {
			v = binary.LittleEndian.Uint16(pix[2*i:])
		}
		scale, bias := math.Float32frombits(u32(r[64+4*c:])), math.Float32frombits(u32(r[80+4*c:]))
		// The conversion keeps the two operations apart.
		binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(float32(v)*scale)+bias))
	}
	return false, nil
}
