// Package png reads and writes Portable Network Graphics.
//
// # Nouns
//
// A file is a signature and chunks: a length, a type of four letters, data, and
// a CRC. IHDR comes first and tells size, depth and colour type; PLTE is the
// palette, tRNS its transparency or a colour that counts as transparent (a
// colour key), eXIf and iCCP are metadata, acTL announces an animation. The IDAT
// chunks together are one zlib stream of rows, each with the filter that it went
// through in front. An interlaced picture is seven smaller ones, the passes.
//
// # What is read, and as what
//
// Pixels come out as np.asarray shows them when Pillow has opened the file: grey
// of 2 and 4 bits is stretched to 8, grey of 1 bit is black and white, palettes
// are kept. 16 bits a channel stay 16, where Pillow keeps only those of grey. A
// colour key is reported as transparency and not applied.
//
// # What is written
//
// The mode as it is, not interlaced, with the filter that makes the smallest sum
// of differences in each row, and with eXIf and iCCP of the source.
package png

import (
	"bytes"
	"context"
	"errors"
	"image"
	"io"
	"sync"

	"github.com/klauspost/compress/zlib"

	"github.com/pipefs/pipefs/transcode"
)

// maxRatio is the most that deflate compresses: a file smaller than its pixels
// divided by it is not complete, whatever it says, and not worth the memory.
const maxRatio = 1032

// maxICC bounds an unpacked colour profile, in bytes.
const maxICC = 4 << 20

// pass is one of the seven pictures of an interlaced file, or the only one.
type pass struct{ x, y, dx, dy int }

var (
	whole   = []pass{{0, 0, 1, 1}}
	passes7 = []pass{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}
)

// size is the number of pixels of the pass in each direction.
func (p pass) size(width, height int) (int, int) {
	return (width - p.x + p.dx - 1) / p.dx, (height - p.y + p.dy - 1) / p.dy
}

// rows is memory for the pixels of a rectangle of the picture, interleaved: its row y
// begins at base + y*stride, in bytes.
type rows struct {
	region       image.Rectangle
	pix          []byte
	base, stride int
	bgr          bool // blue first
}

// Decode decodes a whole file. Of an animation it decodes the default image,
// which is the first frame in nearly all of them.
func (Decoder) Decode(_ context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	h, parts, err := open(src, lim)
	if err != nil {
		return nil, err
	}
	return h.decode(parts, image.Rect(0, 0, h.width, h.height))
}

// DecodeRegion implements [transcode.RegionDecoder]: it stops after the last row of r.
func (Decoder) DecodeRegion(_ context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle) (*transcode.Pixels, error) {
	h, parts, err := open(src, lim)
	if err != nil {
		return nil, err
	}
	if err := info.Verify(h.width, h.height, h.mode); err != nil {
		return nil, err
	}
	return h.decode(parts, r)
}

func (h *header) decode(parts [][]byte, r image.Rectangle) (*transcode.Pixels, error) {
	px := &transcode.Pixels{Width: r.Dx(), Height: r.Dy(), Mode: h.mode, Palette: h.palette}
	if h.mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	px.Meta = transcode.Metadata{EXIF: bytes.Clone(h.exif), ICC: unpackICC(h.iccp), Orientation: transcode.EXIFOrientation(h.exif)}
	px.Pix = make([]byte, px.Len())
	return px, h.pixels(parts, rows{region: r, pix: px.Pix, stride: px.RowBytes()})
}

// Scratch implements [transcode.Scratcher]: the parts of compressed data, joined.
func (Decoder) Scratch(src []byte, _ transcode.Info, _ bool) int64 {
	if bytes.Count(src, []byte("IDAT")) == 1 {
		return 0
	}
	return int64(len(src))
}

// Fill implements [transcode.Filler].
func (Decoder) Fill(_ context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle, dst []byte, at transcode.Layout) error {
	h, parts, err := open(src, lim)
	if err != nil {
		return err
	}
	if err := info.Verify(h.width, h.height, h.mode); err != nil {
		return err
	}
	size := max(1, h.mode.Depth()/8)
	bgr := at.Channel == -1 && h.mode == transcode.ModeRGB
	if at.Pixel == size*h.mode.Channels() && (at.Channel == size || bgr) {
		to := rows{region: r, pix: dst, base: at.Base, stride: at.Row, bgr: bgr}
		if bgr {
			to.base -= 2
		}
		return h.pixels(parts, to)
	}
	px, err := h.decode(parts, r)
	if err != nil {
		return err
	}
	transcode.Place(px, px.Bounds(), dst, at)
	return nil
}

// open reads everything but the pixels, and checks that those are worth the memory.
func open(src []byte, lim transcode.Limits) (*header, [][]byte, error) {
	h, parts, err := parse(src)
	if err != nil {
		return nil, nil, err
	}
	if err := lim.CheckSize(h.width, h.height); err != nil {
		return nil, nil, err
	}
	packed := int64(0)
	for _, part := range parts {
		packed += int64(len(part))
	}
	if int64(h.rowBytes(h.width))*int64(h.height) > (packed+1)*maxRatio {
		return nil, nil, transcode.Errorf(transcode.ErrTruncated, "PNG of %d by %d pixels in %d bytes", h.width, h.height, packed)
	}
	return h, parts, nil
}

// pixels decodes the pixels of a region, and what comes before them. It does not go on
// after the last row of the region if the file is complete: the CRC of its chunks are
// those of all pixels.
func (h *header) pixels(parts [][]byte, to rows) error {
	z, err := inflate(parts)
	if err != nil {
		return streamError(err)
	}
	defer inflaters.Put(z)
	passes := whole
	if h.interlaced {
		passes = passes7
	}
	partly := h.ended && to.region.Max.Y < h.height
	for i, p := range passes {
		_, rows := p.size(h.width, h.height)
		if partly && i == len(passes)-1 {
			_, rows = p.size(h.width, to.region.Max.Y)
		}
		if err := h.pass(to, z, p, rows); err != nil {
			return err
		}
	}
	if !partly {
		// Reading on checks the stream's checksum. More rows than there should be
		// are no reason to refuse the picture.
		var more [1]byte
		if _, err := z.Read(more[:]); err != nil && err != io.EOF {
			return streamError(err)
		}
	}
	if to.bgr {
		for y := range to.region.Dy() {
			row := to.pix[to.base+y*to.stride:][:3*to.region.Dx()]
			transcode.SwapRedBlue(row, row)
		}
	}
	return nil
}

// streamError classifies an error of zlib.
func streamError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return transcode.Errorf(transcode.ErrTruncated, "PNG: the pixels end early")
	}
	return transcode.Errorf(transcode.ErrBad, "PNG: %v", err)
}

// pass decodes the first rows of a pass, and keeps what lies in the region.
func (h *header) pass(to rows, z io.Reader, p pass, height int) error {
	width, _ := p.size(h.width, h.height)
	if width <= 0 || height <= 0 {
		return nil
	}
	rowBytes := h.rowBytes(width)
	// The first byte before a row is its filter; what is left of the pixel above
	// and to the left is 0.
	bpp := max(1, h.values()*h.depth/8)
	row, above := make([]byte, 1+rowBytes), make([]byte, 1+rowBytes)
	size := h.mode.Channels() * max(1, h.mode.Depth()/8)
	spread := make([]byte, width*size)
	r, needed := to.region, rowBytes
	if p.dx == 1 {
		needed = h.rowBytes(r.Max.X) // no filter looks to the right
	}
	for y := range height {
		if _, err := io.ReadFull(z, row); err != nil {
			return streamError(err)
		}
		if err := unfilter(row[0], row[1:1+needed], above[1:], bpp); err != nil {
			return err
		}
		if y := p.y + y*p.dy; y >= r.Min.Y && y < r.Max.Y {
			dst := to.pix[to.base+(y-r.Min.Y)*to.stride:][:r.Dx()*size]
			if p.dx == 1 && h.depth >= 8 {
				h.unpack(dst, row[1+r.Min.X*size:])
			} else {
				h.unpack(spread, row[1:])
				p.keep(dst, spread, size, r.Min.X, r.Max.X)
			}
		}
		row, above = above, row
	}
	return nil
}

// keep copies those pixels of a row of the pass, of size bytes, that lie in the columns of
// the picture from one on, up to and without another.
func (p pass) keep(dst, src []byte, size, from, to int) {
	for x := max(0, (from-p.x+p.dx-1)/p.dx); p.x+x*p.dx < to; x++ {
		copy(dst[(p.x+x*p.dx-from)*size:][:size], src[x*size:])
	}
}

// unpack turns a row of the file into pixels.
func (h *header) unpack(dst, src []byte) {
	switch h.depth {
	case 8:
		copy(dst, src)
	case 16:
		for i := 0; i+1 < len(dst) && i+1 < len(src); i += 2 {
			dst[i], dst[i+1] = src[i+1], src[i]
		}
	default:
		scale := byte(1)
		if h.mode == transcode.ModeL {
			scale = 255 / (1<<h.depth - 1)
		}
		mask := byte(1)<<h.depth - 1
		perByte := 8 / h.depth
		for i := range dst {
			shift := 8 - h.depth*(1+i%perByte)
			dst[i] = src[i/perByte] >> shift & mask * scale
		}
	}
}

// inflaters are kept because one takes 50 kB.
var inflaters sync.Pool

// inflate returns a reader of the decompressed parts. The decompressor is fast
// over a bytes.Reader and slow over a reader of our own, hence the join.
func inflate(parts [][]byte) (io.ReadCloser, error) {
	packed := parts[0]
	if len(parts) > 1 {
		packed = bytes.Join(parts, nil)
	}
	src := bytes.NewReader(packed)
	if z, ok := inflaters.Get().(io.ReadCloser); ok {
		return z, z.(zlib.Resetter).Reset(src, nil)
	}
	return zlib.NewReader(src)
}

// unpackICC returns the profile of an iCCP chunk; none where it is damaged.
func unpackICC(chunk []byte) []byte {
	name := bytes.IndexByte(chunk, 0)
	if name < 0 || len(chunk) < name+2 || chunk[name+1] != 0 {
		return nil
	}
	z, err := zlib.NewReader(bytes.NewReader(chunk[name+2:]))
	if err != nil {
		return nil
	}
	defer z.Close()
	profile, err := io.ReadAll(io.LimitReader(z, maxICC+1))
	if err != nil || len(profile) > maxICC {
		return nil
	}
	return profile
}
