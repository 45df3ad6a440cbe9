package fakecuda

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
// address to its end, or nil. It knows all outputs, and decodes whole pictures only.
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
	width := []int{size, 4, 2}[r[58]]
	// From the lowest sample to the end of the highest one: distances may be negative.
	row, pixel, channel := int(u64(r[16:])), int(u64(r[24:])), int(u64(r[32:]))
	low, high := 0, width
	for _, d := range []int{row * (s.Height - 1), pixel * (s.Width - 1), channel * (channels - 1)} {
		low, high = low+min(d, 0), high+max(d, 0)
	}
	dst := at(u64(r[8:]) + uint64(low))
	if len(dst) < high-low {
		return false, fmt.Errorf("%d bytes at %x in memory of nobody", high-low, u64(r[8:])+uint64(low))
	}
	var scale, bias [4]float32
	for c := range 4 {
		scale[c], bias[c] = math.Float32frombits(u32(r[64+4*c:])), math.Float32frombits(u32(r[80+4*c:]))
	}
	for i := range s.Width * s.Height * channels {
		x, y, c := i/channels%s.Width, i/channels/s.Width, i%channels
		to, v := dst[y*row+x*pixel+c*channel-low:], uint16(pix[i*size])
		if size == 2 {
			v = binary.LittleEndian.Uint16(pix[2*i:])
		}
		// The conversion keeps the two operations apart.
		number := float32(float32(v)*scale[c]) + bias[c]
		switch r[58] {
		case 0:
			copy(to[:size], pix[i*size:])
		case 1:
			binary.LittleEndian.PutUint32(to, math.Float32bits(number))
		case 2:
			binary.LittleEndian.PutUint16(to, half(number))
		}
	}
	return false, nil
}

// half is the nearest number of 16 bits, of two the even one.
func half(f float32) uint16 {
	if f != f {
		return 0x7fff // what cvt.rn.f16 makes of it
	}
	magnitude := math.Abs(float64(f))
	// Neighbours differ by 2^(exponent-10); those of the smallest ones all by the same.
	_, exponent := math.Frexp(magnitude)
	exponent = max(exponent-1, -14)
	steps := math.RoundToEven(math.Ldexp(magnitude, 10-exponent))
	bits := min(float64((exponent+14)<<10)+steps, 0x7c00)
	return uint16(bits) | uint16(math.Float32bits(f)>>16&0x8000)
}
