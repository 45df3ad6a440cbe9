package png

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zlib"

	"github.com/pipefs/pipefs/transcode"
)

// Kind is the step `png`.
func Kind() *transcode.Kind {
	return &transcode.Kind{
		Name: "png", Brief: "PNG: every mode, losslessly compressed",
		From: transcode.Picture, To: transcode.File,
		// The compressor determines the bytes. If the test of exact output fails after an
		// update of it, the ID has to change.
		ID:     "png1",
		Format: transcode.PNG, Ext: "png",
		Shape: shape,
		Apply: func(ctx context.Context, in transcode.Payload, _ transcode.Call) (transcode.Payload, error) {
			b, err := Encode(ctx, in.Pixels)
			return transcode.Payload{Bytes: b}, err
		},
	}
}

// shape accepts every mode. Transparency that is not part of the pixels or the
// palette, a colour key, is lost in decoding and so cannot be written.
func shape(in transcode.Shape, _ int) (transcode.Shape, bool) {
	out := in
	out.Format, out.Stage = transcode.PNG, transcode.File
	_, _, ok := ihdrOf(in.Mode)
	return out, ok && in.Type != transcode.Float32 && (!in.Transparent || in.Mode == transcode.ModeP)
}

// ihdrOf is what IHDR says of a mode.
func ihdrOf(m transcode.Mode) (depth int, colour byte, ok bool) {
	switch m {
	case transcode.ModeBit:
		return 1, colourGrey, true
	case transcode.ModeL, transcode.ModeI16:
		return m.Depth(), colourGrey, true
	case transcode.ModeLA, transcode.ModeLA16:
		return m.Depth(), colourGreyAlpha, true
	case transcode.ModeP:
		return 8, colourPalette, true
	case transcode.ModeRGB, transcode.ModeRGB16:
		return m.Depth(), colourRGB, true
	case transcode.ModeRGBA, transcode.ModeRGBA16:
		return m.Depth(), colourRGBA, true
	}
	return 0, 0, false
}

// Encode encodes a picture. The same picture always gives the same bytes.
func Encode(ctx context.Context, px *transcode.Pixels) ([]byte, error) {
	depth, colour, ok := ihdrOf(px.Mode)
	if !ok || px.Type == transcode.Float32 || px.Planar {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "a PNG of mode %v", px.Mode)
	}
	if len(px.Pix) != px.Len() || len(px.Pix) == 0 {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d bytes of pixels for %v %dx%d", len(px.Pix), px.Mode, px.Width, px.Height)
	}
	h := &header{width: px.Width, height: px.Height, depth: depth, colour: colour, mode: px.Mode}
	out := &bytes.Buffer{}
	out.Grow(len(px.Pix)/2 + 1024)
	out.WriteString(signature)
	ihdr := binary.BigEndian.AppendUint32(nil, uint32(px.Width))
	ihdr = binary.BigEndian.AppendUint32(ihdr, uint32(px.Height))
	writeChunk(out, "IHDR", append(ihdr, byte(depth), colour, 0, 0, 0))
	if len(px.Meta.ICC) > 0 {
		writeChunk(out, "iCCP", packICC(px.Meta.ICC))
	}
	if px.Mode == transcode.ModeP {
		writePalette(out, px)
	}
	if len(px.Meta.EXIF) > 0 {
		writeChunk(out, "eXIf", px.Meta.EXIF)
	}
	if err := h.writePixels(ctx, out, px); err != nil {
		return nil, err
	}
	writeChunk(out, "IEND", nil)
	return out.Bytes(), nil
}

func writeChunk(out *bytes.Buffer, kind string, data []byte) {
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], uint32(len(data)))
	copy(b[4:], kind)
	out.Write(b[:])
	out.Write(data)
	sum := crc32.Update(crc32.ChecksumIEEE(b[4:]), crc32.IEEETable, data)
	out.Write(binary.BigEndian.AppendUint32(b[:0], sum))
}

// writePalette writes PLTE, and tRNS up to the last entry that is transparent.
// Every index that occurs gets an entry: decoders refuse one that has none.
func writePalette(out *bytes.Buffer, px *transcode.Pixels) {
	top := byte(0)
	for _, v := range px.Pix {
		top = max(top, v)
	}
	entries := min(256, max(len(px.Palette)/4, int(top)+1))
	colours, alphas := make([]byte, 3*entries), make([]byte, entries)
	last := 0
	for i := range entries {
		alphas[i] = 255
		if 4*i+4 <= len(px.Palette) {
			copy(colours[3*i:], px.Palette[4*i:][:3])
			alphas[i] = px.Palette[4*i+3]
		}
		if alphas[i] != 255 {
			last = i + 1
		}
	}
	writeChunk(out, "PLTE", colours)
	if last > 0 {
		writeChunk(out, "tRNS", alphas[:last])
	}
}

// compressors are kept because one takes more than a megabyte.
var compressors = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}

// writePixels writes the rows as one IDAT chunk.
func (h *header) writePixels(ctx context.Context, out *bytes.Buffer, px *transcode.Pixels) error {
	start := out.Len()
	out.WriteString("\x00\x00\x00\x00IDAT")
	z := compressors.Get().(*zlib.Writer)
	defer compressors.Put(z)
	z.Reset(out)

	rowBytes, bpp := h.rowBytes(h.width), max(1, h.values()*h.depth/8)
	row, above := make([]byte, rowBytes), make([]byte, rowBytes)
	var tries [filters][]byte
	for f := range tries {
		tries[f] = make([]byte, 1+rowBytes)
		tries[f][0] = byte(f)
	}
	for y := range h.height {
		if y%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		h.pack(row, px.Pix[y*px.RowBytes():][:px.RowBytes()])
		best := filterNone
		// Neighbouring indices and bits are not similar as numbers.
		if h.depth >= 8 && h.colour != colourPalette {
			least := -1
			for f := range tries {
				if sum := filtered(tries[f][1:], row, above, byte(f), bpp); least < 0 || sum < least {
					best, least = f, sum
				}
			}
		} else {
			copy(tries[filterNone][1:], row)
		}
		if _, err := z.Write(tries[best]); err != nil {
			return transcode.Errorf(transcode.ErrInternal, "PNG: %v", err)
		}
		row, above = above, row
	}
	if err := z.Close(); err != nil {
		return transcode.Errorf(transcode.ErrInternal, "PNG: %v", err)
	}
	chunk := out.Bytes()[start:]
	if int64(len(chunk)-8) > 1<<31-1 {
		return transcode.Errorf(transcode.ErrUnsupported, "a PNG of %d bytes", len(chunk))
	}
	binary.BigEndian.PutUint32(chunk, uint32(len(chunk)-8))
	out.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(chunk[4:])))
	return nil
}

// pack turns a row of pixels into one of the file.
func (h *header) pack(dst, src []byte) {
	switch h.depth {
	case 1:
		clear(dst)
		for i, v := range src {
			dst[i>>3] |= v & 1 << (7 - i&7)
		}
	case 16:
		for i := 0; i+1 < len(src); i += 2 {
			dst[i], dst[i+1] = src[i+1], src[i]
		}
	default:
		copy(dst, src)
	}
}

// packICC makes the content of an iCCP chunk.
func packICC(profile []byte) []byte {
	b := bytes.NewBufferString("ICC Profile\x00\x00")
	z := zlib.NewWriter(b)
	_, _ = z.Write(profile) // into memory: it cannot fail
	z.Close()
	return b.Bytes()
}

// The filters of a row.
const (
	filterNone = iota
	filterSub
	filterUp
	filterAverage
	filterPaeth
	filters
)

// unfilter restores a row in place from the one above; bpp is the distance in
// bytes to the value on the left.
func unfilter(filter byte, row, above []byte, bpp int) error {
	above = above[:len(row)]
	switch filter {
	case filterNone:
	case filterSub:
		for i := bpp; i < len(row); i++ {
			row[i] += row[i-bpp]
		}
	case filterUp:
		for i, up := range above {
			row[i] += up
		}
	case filterAverage:
		for i := range min(bpp, len(row)) {
			row[i] += above[i] / 2
		}
		for i := bpp; i < len(row); i++ {
			row[i] += byte((int(row[i-bpp]) + int(above[i])) / 2)
		}
	case filterPaeth:
		unpaeth(row, above, bpp)
	default:
		return transcode.Errorf(transcode.ErrBad, "PNG: filter %d", filter)
	}
	return nil
}

// unpaeth undoes Paeth's predictor, channel by channel, so that the pixels on
// the left and above left stay in registers.
func unpaeth(row, above []byte, bpp int) {
	for c := range min(bpp, len(row)) {
		left, corner := 0, 0
		for i := c; i < len(row) && i < len(above); i += bpp {
			up := int(above[i])
			left = int(row[i]+byte(paeth(left, up, corner))) & 255
			row[i] = byte(left)
			corner = up
		}
	}
}

// paeth is the neighbour that is nearest to left + up - corner.
func paeth(left, up, corner int) int {
	toLeft, toUp := up-corner, left-corner
	toCorner := abs(toLeft + toUp)
	toLeft, toUp = abs(toLeft), abs(toUp)
	switch {
	case toLeft <= toUp && toLeft <= toCorner:
		return left
	case toUp <= toCorner:
		return up
	}
	return corner
}

func abs(x int) int {
	sign := x >> 63
	return (x ^ sign) - sign
}

// filtered writes the row to dst, gone through a filter, and returns the sum of
// the results as distances from 0: the usual guess at how well they compress.
func filtered(dst, row, above []byte, filter byte, bpp int) int {
	dst, above = dst[:len(row)], above[:len(row)]
	switch filter {
	case filterNone:
		copy(dst, row)
	case filterSub:
		copy(dst, row[:min(bpp, len(row))])
		for i := bpp; i < len(row); i++ {
			dst[i] = row[i] - row[i-bpp]
		}
	case filterUp:
		for i := range row {
			dst[i] = row[i] - above[i]
		}
	case filterAverage:
		for i := range row {
			left := 0
			if i >= bpp {
				left = int(row[i-bpp])
			}
			dst[i] = row[i] - byte((left+int(above[i]))/2)
		}
	case filterPaeth:
		for i := range row {
			left, corner := 0, 0
			if i >= bpp {
				left, corner = int(row[i-bpp]), int(above[i-bpp])
			}
			dst[i] = row[i] - byte(paeth(left, int(above[i]), corner))
		}
	}
	sum := 0
	for _, v := range dst {
		sum += abs(int(int8(v)))
	}
	return sum
}
