package jpeg

import (
	"bytes"
	"encoding/binary"
)

// ColorModel says what the components of a picture mean.
type ColorModel uint8

// The colour models that libjpeg tells apart.
const (
	ModelUnknown ColorModel = iota // 2 components, or more than 4
	ModelGrey
	ModelYCbCr
	ModelRGB
	ModelCMYK
	ModelYCCK
)

func (m ColorModel) String() string {
	switch m {
	case ModelGrey:
		return "grey"
	case ModelYCbCr:
		return "YCbCr"
	case ModelRGB:
		return "RGB"
	case ModelCMYK:
		return "CMYK"
	case ModelYCCK:
		return "YCCK"
	}
	return "unknown"
}

// Segment is a COM or APPn segment.
type Segment struct {
	Marker byte   // the code after FF: 0xFE for COM, 0xE0 to 0xEF for APPn
	Data   []byte // payload without its length; part of the input, not a copy
}

func (s Segment) has(marker byte, prefix string) bool {
	return s.Marker == marker && len(s.Data) >= len(prefix) && string(s.Data[:len(prefix)]) == prefix
}

func (s Segment) isJFIF() bool  { return s.has(mAPP0, "JFIF\x00") }
func (s Segment) isAdobe() bool { return s.has(mAPP0+14, "Adobe") }
func (s Segment) isEXIF() bool  { return s.has(mAPP0+1, "Exif\x00\x00") }

// JFIF is what a JFIF APP0 segment says (JFIF 1.02), but for its thumbnail.
type JFIF struct {
	Present            bool
	Major, Minor       byte
	Unit               byte // of the densities: 0 aspect ratio only, 1 per inch, 2 per cm
	XDensity, YDensity uint16
}

// Adobe is what an Adobe APP14 segment says.
type Adobe struct {
	Present   bool
	Transform byte // 0 RGB or CMYK, 1 YCbCr, 2 YCCK
}

// metadata collects the COM and APPn segments of a file.
type metadata struct {
	segments []Segment
	jfif     JFIF
	adobe    Adobe
}

// add takes note of one more segment. The last JFIF and the last Adobe segment
// win, and they count only if they are long enough, all as in libjpeg.
func (m *metadata) add(s Segment) {
	m.segments = append(m.segments, s)
	switch d := s.Data; {
	case s.isJFIF() && len(d) >= 14:
		m.jfif.Present = true
		m.jfif.Major, m.jfif.Minor, m.jfif.Unit = d[5], d[6], d[7]
		m.jfif.XDensity = binary.BigEndian.Uint16(d[8:])
		m.jfif.YDensity = binary.BigEndian.Uint16(d[10:])
	case s.isAdobe() && len(d) >= 12:
		m.adobe = Adobe{true, d[11]}
	}
}

// model deduces the colour model as libjpeg does: no standard says all of it.
func (m *metadata) model(components []ComponentInfo) ColorModel {
	switch len(components) {
	case 1:
		return ModelGrey
	case 3:
		if m.jfif.Present {
			return ModelYCbCr
		}
		if m.adobe.Present {
			if m.adobe.Transform == 0 {
				return ModelRGB
			}
			return ModelYCbCr
		}
		if components[0].ID == 'R' && components[1].ID == 'G' && components[2].ID == 'B' {
			return ModelRGB
		}
		return ModelYCbCr
	case 4:
		if m.adobe.Present && m.adobe.Transform != 0 {
			return ModelYCCK
		}
		return ModelCMYK
	}
	return ModelUnknown
}

// exif returns the TIFF structure of the first EXIF segment, or nil.
func (m *metadata) exif() []byte {
	for _, s := range m.segments {
		if s.isEXIF() {
			return s.Data[len("Exif\x00\x00"):]
		}
	}
	return nil
}

// icc returns the ICC profile, put together from its chunks (ICC.1:2010 B.4),
// or nil where there is none or a chunk is missing, double or inconsistent.
func (m *metadata) icc() []byte {
	const tag = "ICC_PROFILE\x00"
	var chunks [256][]byte
	count, size := 0, 0
	for _, s := range m.segments {
		if !s.has(mAPP0+2, tag) || len(s.Data) < len(tag)+2 {
			continue
		}
		seq, n := int(s.Data[len(tag)]), int(s.Data[len(tag)+1])
		if count == 0 {
			count = n
		}
		if n != count || seq < 1 || seq > n || chunks[seq] != nil {
			return nil
		}
		chunks[seq] = s.Data[len(tag)+2:]
		size += len(chunks[seq])
	}
	if size == 0 {
		return nil
	}
	for i := 1; i <= count; i++ {
		if chunks[i] == nil {
			return nil
		}
	}
	if count == 1 {
		return chunks[1]
	}
	return bytes.Join(chunks[1:count+1], nil)
}
