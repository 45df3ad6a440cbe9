package strategy

import (
	"bytes"
	"encoding/binary"

	"github.com/pipefs/pipefs/transcode"
)

// The body of a record of pixels, little-endian: the info of the shape; stage, type,
// layout and orientation, one byte each; the lengths of palette, EXIF and ICC, 32 bits
// each; palette, EXIF and ICC; the pixels.
const fixed = 12 + 4 + 3*4

// bodySize is the length of the body.
func bodySize(p transcode.Payload, meta bool) int64 {
	if p.Pixels == nil {
		return int64(len(p.Bytes))
	}
	n := fixed + size(p)
	if meta {
		n += int64(len(p.Pixels.Meta.EXIF) + len(p.Pixels.Meta.ICC))
	}
	return n
}

// appendBody appends the body of a payload. EXIF and ICC are kept only with meta, for
// pipelines that end in files, which carry them.
func appendBody(b []byte, p transcode.Payload, meta bool) ([]byte, error) {
	px := p.Pixels
	if px == nil {
		return append(b, p.Bytes...), nil
	}
	s := p.Shape
	if px.Width != s.Width || px.Height != s.Height || px.Mode != s.Mode || px.Type != s.Type || len(px.Pix) != px.Len() {
		return nil, transcode.Errorf(transcode.ErrInternal, "pixels of %v %dx%d (%d bytes) where %v %dx%d were planned",
			px.Mode, px.Width, px.Height, len(px.Pix), s.Mode, s.Width, s.Height)
	}
	exif, icc := px.Meta.EXIF, px.Meta.ICC
	if !meta {
		exif, icc = nil, nil
	}
	var planar byte
	if px.Planar {
		planar = 1
	}
	b = transcode.AppendInfo(b, s.Info)
	b = append(b, byte(s.Stage), byte(s.Type), planar, px.Meta.Orientation)
	for _, part := range [][]byte{px.Palette, exif, icc} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
	}
	for _, part := range [][]byte{px.Palette, exif, icc, px.Pix} {
		b = append(b, part...)
	}
	return b, nil
}

// readBody reads the body of a payload whose shape is known, and lies in b.
func readBody(b []byte, want transcode.Shape) (transcode.Payload, error) {
	if want.Stage&(transcode.Source|transcode.File) != 0 {
		return transcode.Payload{Shape: want, Bytes: b}, nil
	}
	if len(b) < fixed {
		return transcode.Payload{}, transcode.Errorf(transcode.ErrTruncated, "pixels of %d bytes", len(b))
	}
	if info := transcode.AppendInfo(nil, want.Info); !bytes.Equal(b[:12], info) || b[12] != byte(want.Stage) || b[13] != byte(want.Type) || b[14] > 1 {
		return transcode.Payload{}, transcode.Errorf(transcode.ErrBad, "pixels whose header is % x", b[:fixed])
	}
	px := &transcode.Pixels{
		Width: want.Width, Height: want.Height, Mode: want.Mode, Type: want.Type, Planar: b[14] == 1,
		Meta: transcode.Metadata{Orientation: b[15]},
	}
	rest := b[fixed:]
	for i, part := range []*[]byte{&px.Palette, &px.Meta.EXIF, &px.Meta.ICC} {
		n := int(binary.LittleEndian.Uint32(b[16+4*i:]))
		if n > len(rest) {
			return transcode.Payload{}, transcode.Errorf(transcode.ErrTruncated, "%d bytes where %d belong to a part", len(rest), n)
		}
		if n > 0 {
			*part = rest[:n:n]
		}
		rest = rest[n:]
	}
	px.Pix = rest
	if len(px.Pix) != px.Len() {
		return transcode.Payload{}, transcode.Errorf(transcode.ErrTruncated, "%d bytes of pixels where %d are needed", len(px.Pix), px.Len())
	}
	return transcode.Payload{Shape: want, Pixels: px}, nil
}
