package raster

import "github.com/pipefs/pipefs/transcode"

// mixable is the mode in which the pixels of a picture of mode m can be mixed
// with each other; ModeNone where they stay as they are, since neither Pillow
// nor we resample 16 bits.
func mixable(m transcode.Mode, transparent bool) transcode.Mode {
	switch m {
	case transcode.ModeBit:
		return transcode.ModeL
	case transcode.ModeP:
		if transparent {
			return transcode.ModeRGBA
		}
		return transcode.ModeRGB
	case transcode.ModeL, transcode.ModeLA, transcode.ModeRGB, transcode.ModeRGBA:
		return m
	}
	return transcode.ModeNone
}

// mixed sets the mode of s to mixable's and reports whether there is one.
func mixed(s transcode.Shape) (transcode.Shape, bool) {
	m := mixable(s.Mode, s.Transparent)
	if s.Mode == transcode.ModeP {
		s.Transparent = false // it has become alpha
	}
	s.Mode = m
	return s, m != transcode.ModeNone
}

// toMode converts black and white to grey, and a palette to its colours. The
// result has no palette; a picture of mode m already is returned as it is.
func toMode(px *transcode.Pixels, m transcode.Mode) *transcode.Pixels {
	if px.Mode == m {
		return px
	}
	out := *px
	out.Mode, out.Palette = m, nil
	out.Pix = make([]byte, out.Len())
	if px.Mode == transcode.ModeBit {
		for i, v := range px.Pix {
			out.Pix[i] = -(v & 1)
		}
		return &out
	}
	// Indices past the end of the palette are black and opaque, as in Pillow.
	var table [256][4]byte
	for i := range table {
		table[i][3] = 255
		if 4*i+4 <= len(px.Palette) {
			copy(table[i][:], px.Palette[4*i:])
		}
	}
	dst := out.Pix
	if m == transcode.ModeRGB {
		for _, v := range px.Pix {
			c := &table[v]
			dst[0], dst[1], dst[2] = c[0], c[1], c[2]
			dst = dst[3:]
		}
		return &out
	}
	for _, v := range px.Pix {
		copy(dst, table[v][:])
		dst = dst[4:]
	}
	return &out
}

// like returns a picture of the same kind as px, of another size, zeroed.
func like(px *transcode.Pixels, width, height int) *transcode.Pixels {
	out := *px
	out.Width, out.Height = width, height
	out.Pix = make([]byte, out.Len())
	return &out
}
