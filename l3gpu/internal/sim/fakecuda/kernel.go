package fakecuda

import (
	"encoding/binary"
	"errors"
	"fmt"

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
// end, or nil. It decodes whole pictures only, and makes no floats of samples.
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
	if err := s.Decode(transcode.Interleaved(pix, s.Width, channels, size)); err != nil {
		return true, nil
	}
	if output := kernel.Output(r.Output); output != kernel.AsStored {
		return false, fmt.Errorf("output %d, where samples are wanted as they are stored", output)
	}
	// From the lowest sample to the end of the highest one: distances may be negative.
	row, pixel, channel := int(r.Row), int(r.Pixel), int(r.Channel)
	low, high := 0, size
	for _, d := range []int{row * (s.Height - 1), pixel * (s.Width - 1), channel * (channels - 1)} {
		low, high = low+min(d, 0), high+max(d, 0)
	}
	dst := at(r.Dst + uint64(low))
	if len(dst) < high-low {
		return false, fmt.Errorf("%d bytes at %x in memory of nobody", high-low, r.Dst+uint64(low))
	}
	for i := range s.Width * s.Height * channels {
		x, y, c := i/channels%s.Width, i/channels/s.Width, i%channels
		copy(dst[y*row+x*pixel+c*channel-low:][:size], pix[i*size:])
	}
	return false, nil
}
