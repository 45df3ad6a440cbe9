package npy

import (
	"encoding/binary"
	"fmt"

	"github.com/pipefs/pipefs/transcode"
)

const (
	magic = "\x93NUMPY\x01\x00"
	// headerSize is the offset of the values, a multiple of 64. It is the same
	// for all pictures: the dictionary takes from 60 to 90 bytes, and where the
	// values begin must not depend on anything but the format.
	headerSize = 128
)

// Kind is the step `npy`.
func Kind() *transcode.Kind {
	return &transcode.Kind{
		Name: "npy", Brief: "NumPy array: what np.asarray gives of the picture",
		From: transcode.Picture | transcode.Tensor | transcode.Planes, To: transcode.File, ID: "npy1",
		Format: transcode.NPY, Ext: "npy",
		Shape: shape, Size: Size, Frame: frame,
		Apply: transcode.Encoding(Encode),
	}
}

// shape accepts every picture: an array holds numbers, whatever they mean.
func shape(in transcode.Shape, _ int) (transcode.Shape, bool) {
	out := in
	out.Format, out.Stage = transcode.NPY, transcode.File
	return out, in.Mode != transcode.ModeNone
}

// AppendHeader appends what precedes the values of px, of which it reads all
// but Pix.
func AppendHeader(b []byte, px *transcode.Pixels) []byte {
	dtype := "|u1"
	switch {
	case px.Type == transcode.Uint16:
		dtype = "<u2"
	case px.Type == transcode.Float32:
		dtype = "<f4"
	case px.Mode == transcode.ModeBit:
		dtype = "|b1"
	}
	var shape string
	switch c := px.Mode.Channels(); {
	case px.Planar:
		shape = fmt.Sprintf("(%d, %d, %d)", c, px.Height, px.Width)
	case c == 1:
		shape = fmt.Sprintf("(%d, %d)", px.Height, px.Width)
	default:
		shape = fmt.Sprintf("(%d, %d, %d)", px.Height, px.Width, c)
	}
	start := len(b)
	b = append(b, magic...)
	b = append(b, 0, 0)
	b = fmt.Appendf(b, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape)
	// The newline is the last byte of the padding.
	for len(b)-start+1 < headerSize {
		b = append(b, ' ')
	}
	b = append(b, '\n')
	binary.LittleEndian.PutUint16(b[start+len(magic):], headerSize-uint16(len(magic))-2)
	return b
}

// Size is the length in bytes of the file that holds a picture of s.
func Size(s transcode.Shape) int64 {
	return headerSize + int64(s.Width)*int64(s.Height)*int64(s.Mode.Channels()*s.Type.Size())
}

// frame makes the file without its values.
func frame(px *transcode.Pixels, alloc transcode.Alloc) ([]byte, transcode.Layout, bool) {
	b := alloc(headerSize + int64(px.Len()))
	AppendHeader(b[:0], px)
	at := transcode.LayoutOf(px)
	at.Base = headerSize
	return b, at, px.Mode != transcode.ModeNone
}

// Encode encodes a picture.
func Encode(px *transcode.Pixels) ([]byte, error) {
	if px.Mode == transcode.ModeNone || len(px.Pix) != px.Len() {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d bytes of pixels for %v %dx%d", len(px.Pix), px.Mode, px.Width, px.Height)
	}
	b := AppendHeader(make([]byte, 0, headerSize+len(px.Pix)), px)
	return append(b, px.Pix...), nil
}
