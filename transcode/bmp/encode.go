package bmp

import (
	"encoding/binary"
	"math"

	"github.com/pipefs/pipefs/transcode"
)

// Kind is the step `bmp`.
func Kind() *transcode.Kind {
	return &transcode.Kind{
		Name: "bmp", Brief: "Windows bitmap: raw pixels that every reader knows",
		From: transcode.Picture, To: transcode.File, ID: "bmp1",
		Format: transcode.BMP, Ext: "bmp",
		Shape: shape, Size: Size, Frame: frame,
		Apply: transcode.Encoding(Encode),
	}
}

// shape accepts what a bitmap holds: neither 16 bits nor a palette with
// transparency, nor more than 4 GiB.
func shape(in transcode.Shape, _ int) (transcode.Shape, bool) {
	out := in
	out.Format, out.Stage = transcode.BMP, transcode.File
	return out, depth(in.Mode) != 0 && !in.Transparent && in.Type == transcode.Uint8 &&
		in.Width > 0 && in.Height > 0 && in.Width <= math.MaxInt32/32 && in.Height <= math.MaxInt32 &&
		Size(out) <= math.MaxUint32
}

// depth is the number of bits that a pixel takes in the file; 0 where a bitmap
// cannot hold the mode.
func depth(m transcode.Mode) int {
	switch m {
	case transcode.ModeBit:
		return 1
	case transcode.ModeL, transcode.ModeP:
		return 8
	case transcode.ModeRGB:
		return 24
	case transcode.ModeRGBA:
		return 32
	}
	return 0
}

// colours is the number of palette entries.
func colours(m transcode.Mode) int {
	switch m {
	case transcode.ModeBit:
		return 2
	case transcode.ModeL, transcode.ModeP:
		return 256
	}
	return 0
}

// offset is where the pixels begin.
func offset(m transcode.Mode) int {
	if m == transcode.ModeRGBA {
		return fileHeader + infoHeader4
	}
	return fileHeader + infoHeader + 4*colours(m)
}

// Size is the length in bytes of the file that holds a picture of s.
func Size(s transcode.Shape) int64 {
	stride := (int64(s.Width)*int64(depth(s.Mode)) + 31) / 32 * 4
	return int64(offset(s.Mode)) + stride*int64(s.Height)
}

// AppendHeader appends everything that precedes the pixels of px, of which it
// reads all but Pix.
func AppendHeader(b []byte, px *transcode.Pixels) []byte {
	le := binary.LittleEndian
	size := Size(transcode.Shape{Info: transcode.Info{Mode: px.Mode, Width: px.Width, Height: px.Height}})
	start := offset(px.Mode)
	info, compression := infoHeader, uncompressed
	if px.Mode == transcode.ModeRGBA {
		info, compression = infoHeader4, bitfields
	}
	b = append(b, 'B', 'M')
	b = le.AppendUint32(b, uint32(size))
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(start))

	b = le.AppendUint32(b, uint32(info))
	b = le.AppendUint32(b, uint32(px.Width))
	b = le.AppendUint32(b, uint32(px.Height))
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, uint16(depth(px.Mode)))
	b = le.AppendUint32(b, uint32(compression))
	b = le.AppendUint32(b, uint32(size-int64(start)))
	// 96 dots an inch, in dots a metre.
	b = le.AppendUint32(b, 3780)
	b = le.AppendUint32(b, 3780)
	b = le.AppendUint32(b, uint32(colours(px.Mode)))
	b = le.AppendUint32(b, 0)
	switch px.Mode {
	case transcode.ModeRGBA:
		for _, mask := range []uint32{0xff0000, 0xff00, 0xff, 0xff000000} {
			b = le.AppendUint32(b, mask)
		}
		b = append(b, "BGRs"...) // sRGB, as a little-endian number
		b = append(b, make([]byte, 48)...)
	case transcode.ModeBit:
		b = append(b, 0, 0, 0, 0, 255, 255, 255, 0)
	case transcode.ModeL:
		for i := range 256 {
			b = append(b, byte(i), byte(i), byte(i), 0)
		}
	case transcode.ModeP:
		// Black past the end is no grey ramp, so that Pillow keeps the palette.
		var entries [4 * 256]byte
		for i := 0; i+4 <= min(len(px.Palette), len(entries)); i += 4 {
			entries[i], entries[i+1], entries[i+2] = px.Palette[i+2], px.Palette[i+1], px.Palette[i]
		}
		b = append(b, entries[:]...)
	}
	return b
}

// frame makes the file without its pixels.
func frame(px *transcode.Pixels, alloc transcode.Alloc) ([]byte, transcode.Layout, bool) {
	if px.Mode != transcode.ModeRGB && px.Mode != transcode.ModeL || px.Planar {
		return nil, transcode.Layout{}, false
	}
	b := alloc(Size(transcode.Shape{Info: transcode.Info{Mode: px.Mode, Width: px.Width, Height: px.Height}}))
	AppendHeader(b[:0], px)
	start := offset(px.Mode)
	stride := (len(b) - start) / px.Height
	for end := start + stride; end <= len(b); end += stride {
		clear(b[end-stride+px.Width*px.Mode.Channels() : end])
	}
	at := transcode.Layout{Base: start + (px.Height-1)*stride, Row: -stride, Pixel: px.Mode.Channels(), Channel: 1}
	if px.Mode == transcode.ModeRGB {
		at.Base, at.Channel = at.Base+2, -1
	}
	return b, at, true
}

// Encode encodes a picture. A mode that a bitmap cannot hold is ErrUnsupported.
func Encode(px *transcode.Pixels) ([]byte, error) {
	if depth(px.Mode) == 0 || px.Type != transcode.Uint8 || px.Planar {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "a BMP of mode %v", px.Mode)
	}
	size := Size(transcode.Shape{Info: transcode.Info{Mode: px.Mode, Width: px.Width, Height: px.Height}})
	if size > math.MaxUint32 {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "a BMP of %d bytes", size)
	}
	if px.Width <= 0 || px.Height <= 0 || len(px.Pix) != px.Len() {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d bytes of pixels for %v %dx%d", len(px.Pix), px.Mode, px.Width, px.Height)
	}
	// One allocation, zeroed: the padding is not written below.
	b := make([]byte, size)
	AppendHeader(b[:0], px)
	start, rowBytes := offset(px.Mode), px.RowBytes()
	stride := (len(b) - start) / px.Height
	for y := range px.Height {
		src := px.Pix[y*rowBytes : (y+1)*rowBytes]
		dst := b[start+(px.Height-1-y)*stride:]
		switch px.Mode {
		case transcode.ModeRGB:
			transcode.SwapRedBlue(dst[:rowBytes], src)
		case transcode.ModeRGBA:
			swapRB4(dst[:rowBytes], src)
		case transcode.ModeBit:
			packBits(dst, src)
		default:
			copy(dst, src)
		}
	}
	return b, nil
}

// swapRB4 is [transcode.SwapRedBlue] for pixels of four bytes, of which the last stays.
func swapRB4(dst, src []byte) {
	le := binary.LittleEndian
	for len(src) >= 8 && len(dst) >= 8 {
		a := le.Uint64(src)
		le.PutUint64(dst, a>>16&0x0000_00ff_0000_00ff|a&0xff00_ff00_ff00_ff00|a<<16&0x00ff_0000_00ff_0000)
		src, dst = src[8:], dst[8:]
	}
	if len(src) >= 4 && len(dst) >= 4 {
		dst[0], dst[1], dst[2], dst[3] = src[2], src[1], src[0], src[3]
	}
}

// packBits packs a byte a pixel, 0 or 1, into bits, the most significant first.
func packBits(dst, src []byte) {
	for len(src) >= 8 {
		// The product gathers the lowest bits of eight bytes in the highest byte.
		dst[0] = byte(binary.BigEndian.Uint64(src) & 0x0101_0101_0101_0101 * 0x0102_0408_1020_4080 >> 56)
		src, dst = src[8:], dst[1:]
	}
	if len(src) > 0 {
		var last byte
		for i, v := range src {
			last |= v & 1 << (7 - i)
		}
		dst[0] = last
	}
}

// unpack spreads pixels of the given number of bits, 1 or 4, over bytes.
func unpack(dst, src []byte, bits int) {
	if bits == 1 {
		for i := range dst {
			dst[i] = src[i>>3] >> (7 - i&7) & 1
		}
		return
	}
	for i := range dst {
		dst[i] = src[i>>1] >> (4 - i&1*4) & 15
	}
}
