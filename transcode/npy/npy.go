// Package npy writes NumPy's array format, version 1.0.
//
// # Nouns
//
// A file is a magic number, a version, the length of the header as 16 bits, the
// header (a Python dictionary of dtype, order and shape), padded with blanks so
// that the values begin at a multiple of 64 bytes, and the values in C order.
//
// # What is written
//
// What np.asarray gives of the picture that Pillow opens: (height, width,
// channels), or (height, width) where there is one channel; '|b1' for black and
// white, '|u1', '<u2' or '<f4' for the rest. After `chw` it is (channels,
// height, width), also for one channel. np.load(…, mmap_mode='r') maps it.
package npy

import "github.com/pipefs/pipefs/transcode"

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
	dtype := transcode.DType(px.Type, px.Mode)
	switch c := px.Mode.Channels(); {
	case px.Planar:
		return transcode.AppendArrayHeader(b, dtype, c, px.Height, px.Width)
	case c == 1:
		return transcode.AppendArrayHeader(b, dtype, px.Height, px.Width)
	default:
		return transcode.AppendArrayHeader(b, dtype, px.Height, px.Width, c)
	}
}

// Size is the length in bytes of the file that holds a picture of s.
func Size(s transcode.Shape) int64 {
	return transcode.ArrayHeaderSize + int64(s.Width)*int64(s.Height)*int64(s.Mode.Channels()*s.Type.Size())
}

// frame makes the file without its values.
func frame(px *transcode.Pixels, alloc transcode.Alloc) ([]byte, transcode.Layout, bool) {
	b := alloc(transcode.ArrayHeaderSize + int64(px.Len()))
	AppendHeader(b[:0], px)
	at := transcode.LayoutOf(px)
	at.Base = transcode.ArrayHeaderSize
	return b, at, px.Mode != transcode.ModeNone
}

// Encode encodes a picture.
func Encode(px *transcode.Pixels) ([]byte, error) {
	if px.Mode == transcode.ModeNone || len(px.Pix) != px.Len() {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d bytes of pixels for %v %dx%d", len(px.Pix), px.Mode, px.Width, px.Height)
	}
	b := AppendHeader(make([]byte, 0, transcode.ArrayHeaderSize+len(px.Pix)), px)
	return append(b, px.Pix...), nil
}
