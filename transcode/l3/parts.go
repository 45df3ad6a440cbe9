package l3

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
	v2 "github.com/pipefs/pipefs/transcode/l3/internal/v2"
)

// Part is where the bytes of a patch lie in the file. In version 1 each channel has
// bytes of its own, in version 2 there is one piece for all.
type Part struct {
	Offset, Length [3]int
}

// Source is the file as it was given to Open.
func (s *Samples) Source() []byte { return s.src }

// Columns is how many patches there are from the left edge to the right one.
func (s *Samples) Columns() int { return s.columns() }

// Parts returns where the patches lie, row by row, for a backend that decodes them
// itself. All of them are within Source, and in version 2 have a multiple of 16 as
// offset and 8 bytes or more behind them.
func (s *Samples) Parts() ([]Part, error) {
	if s.Version == 1 {
		return s.parts1()
	}
	parts := make([]Part, len(s.patches))
	for i, p := range s.patches {
		parts[i] = Part{[3]int{p.offset}, [3]int{p.length}}
	}
	return parts, nil
}

// parts1 reads the size table of a file of version 1.
func (s *Samples) parts1() ([]Part, error) {
	table := 13
	if s.src[3] == '+' {
		table++
	}
	channels := s.Mode.Channels()
	// Two numbers below 2³¹; nothing is allocated before it is known that the file has
	// a table of that size.
	n := uint64(s.columns()) * uint64(s.rows())
	if n > uint64(len(s.src)) || table+2*channels*int(n) > len(s.src) {
		return nil, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes ends in its table of %d sizes", len(s.src), uint64(channels)*n)
	}
	parts := make([]Part, n)
	at := table + 2*channels*int(n)
	for c := range channels {
		for i := range parts {
			size := int(binary.LittleEndian.Uint16(s.src[table:]))
			parts[i].Offset[c], parts[i].Length[c] = at, size
			table += 2
			at += size
		}
		if at > len(s.src) {
			return nil, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, channel %d ends at byte %d", len(s.src), c, at)
		}
	}
	return parts, nil
}

// Verify compares the patches with their checksums, which version 1 has not. Decode
// does so itself.
func (s *Samples) Verify() error {
	for i, p := range s.patches {
		if crc32.Checksum(s.src[p.offset:p.offset+p.length], castagnoli) != p.sum {
			x, y, _, _ := s.rect(i)
			return transcode.Errorf(transcode.ErrBad, "L3 patch at %d, %d: checksum differs", x, y)
		}
	}
	return nil
}

// Target is memory for the samples of a picture. Sample c of the pixel at x, y
// begins at Base + y*Row + x*Pixel + c*Channel, all in bytes.
type Target = layout.Target

// Interleaved is the layout of transcode.Pixels: HWC. size is the number of bytes
// a sample takes.
func Interleaved(pix []byte, width, channels, size int) Target {
	return layout.Interleaved(pix, width, channels, size)
}

// Planar is channel by channel: CHW.
func Planar(pix []byte, width, height, size int) Target {
	return layout.Planar(pix, width, height, size)
}

// Job is a picture to be decoded.
type Job struct {
	Samples *Samples
	Dst     Target
	// Err is why it was not decoded, or nil.
	Err error
}

// Backend decodes batches of pictures. It is safe for concurrent use.
type Backend interface {
	// Decode decodes all jobs and sets their Err. It returns an error if the backend
	// itself failed or ctx ended: then jobs may not have been decoded.
	Decode(ctx context.Context, jobs []Job) error
	// Close gives its resources back.
	Close() error
}

// CPU is the Backend that decodes with this package.
type CPU struct {
	Workers int // pictures at once; 0 means 1
}

// Decode implements [Backend].
func (c CPU) Decode(ctx context.Context, jobs []Job) error {
	var work sync.WaitGroup
	next := make(chan *Job)
	for range max(1, c.Workers) {
		work.Go(func() {
			for j := range next {
				j.Err = j.Samples.Decode(j.Dst)
			}
		})
	}
	var err error
	for i := range jobs {
		if err = ctx.Err(); err != nil {
			break
		}
		next <- &jobs[i]
	}
	close(next)
	work.Wait()
	return err
}

// Close implements [Backend].
func (CPU) Close() error { return nil }

// scratches are the working memory of decodings.
var scratches = sync.Pool{New: func() any { return new(v2.Scratch) }}
