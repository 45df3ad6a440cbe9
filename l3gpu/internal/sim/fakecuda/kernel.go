package fakecuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pipefs/pipefs/l3gpu/kernel"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// read fills what a structure has from memory.
func read(b []byte, into any) error {
	if _, err := binary.Decode(b, binary.LittleEndian, into); err != nil {
		return errors.New("tables in memory of nobody")
	}
	return nil
}

// Launch runs a kernel: params are kernel.Params, and at is memory from an address to its
// end, or nil. It knows all outputs, and decodes whole pictures only.
func Launch(params []byte, at func(address uint64) []byte) error {
	var p kernel.Params
	if err := read(params, &p); err != nil {
		return err
	}
	patches := make([]kernel.PatchRecord, p.Count)
	if err := read(at(p.Patches), patches); err != nil {
		return err
	}
	// How long the files are only their patches say.
	pictures, ends := map[uint32]kernel.PictureRecord{}, map[uint32]int{}
	for _, r := range patches {
		picture, ok := pictures[r.Picture]
		if !ok {
			if err := read(at(p.Pictures+kernel.PictureLen*uint64(r.Picture)), &picture); err != nil {
				return err
			}
			pictures[r.Picture] = picture
		}
		for c := range 3 {
			end := int(r.Offset[c] + r.Length[c])
			if picture.Version == 2 {
				end = (end+15)&^15 + 8
			}
			if picture.Version == 1 || c == 0 {
				ends[r.Picture] = max(ends[r.Picture], end)
			}
		}
	}
	for n, end := range ends {
		refused, err := decode(pictures[n], end, at)
		if err != nil {
			return err
		}
		if !refused {
			continue
		}
		status := at(p.Statuses + kernel.StatusLen*uint64(n))
		if len(status) < kernel.StatusLen {
			return errors.New("a status in memory of nobody")
		}
		binary.LittleEndian.PutUint32(status, 1)
	}
	return nil
}

// decode does a picture; an error is a fault, such as memory of nobody.
func decode(r kernel.PictureRecord, end int, at func(uint64) []byte) (refused bool, err error) {
	file := at(r.Src)
	if len(file) < end {
		return false, fmt.Errorf("a file at %x, which has no memory of %d bytes", r.Src, end)
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
	output := kernel.Output(r.Output)
	width := []int{kernel.AsStored: size, kernel.Float32: 4, kernel.Float16: 2}[output]
	// From the lowest sample to the end of the highest one: distances may be negative.
	row, pixel, channel := int(r.Row), int(r.Pixel), int(r.Channel)
	low, high := 0, width
	for _, d := range []int{row * (s.Height - 1), pixel * (s.Width - 1), channel * (channels - 1)} {
		low, high = low+min(d, 0), high+max(d, 0)
	}
	dst := at(r.Dst + uint64(low))
	if len(dst) < high-low {
		return false, fmt.Errorf("%d bytes at %x in memory of nobody", high-low, r.Dst+uint64(low))
	}
	for i := range s.Width * s.Height * channels {
		x, y, c := i/channels%s.Width, i/channels/s.Width, i%channels
		to, v := dst[y*row+x*pixel+c*channel-low:], uint16(pix[i*size])
		if size == 2 {
			v = binary.LittleEndian.Uint16(pix[2*i:])
		}
		// The conversion keeps the two operations apart.
		number := float32(float32(v)*r.Scale[c]) + r.Bias[c]
		switch output {
		case kernel.AsStored:
			copy(to[:size], pix[i*size:])
		case kernel.Float32:
			binary.LittleEndian.PutUint32(to, math.Float32bits(number))
		case kernel.Float16:
			binary.LittleEndian.PutUint16(to, Half(number))
		}
	}
	return false, nil
}

// Half is the nearest number of 16 bits, of two the even one.
func Half(f float32) uint16 {
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
