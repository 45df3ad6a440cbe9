package jpeg

// Coding says how a file codes its picture.
type Coding uint8

// The codings of T.81 table B.1.
const (
	CodingBaseline     Coding = iota // SOF0
	CodingExtended                   // SOF1: sequential, Huffman
	CodingProgressive                // SOF2: progressive, Huffman
	CodingLossless                   // SOF3 and SOF11; also JPEG-LS
	CodingArithmetic                 // SOF9 and SOF10
	CodingHierarchical               // DHP, and SOF5 to SOF7, SOF13 to SOF15
)

func (c Coding) String() string {
	names := [...]string{"baseline", "extended", "progressive", "lossless", "arithmetic", "hierarchical"}
	if int(c) < len(names) {
		return names[c]
	}
	return "unknown"
}

// coding classifies a SOF marker.
func coding(marker byte) Coding {
	switch marker {
	case mSOF0:
		return CodingBaseline
	case mSOF1:
		return CodingExtended
	case mSOF2:
		return CodingProgressive
	case 0xC3, 0xCB:
		return CodingLossless
	case 0xC9, 0xCA:
		return CodingArithmetic
	}
	return CodingHierarchical
}

// ComponentInfo is one component as a SOF segment describes it.
type ComponentInfo struct {
	ID byte
	// H and V are the sampling factors, 1 to 4. A component has H of the largest
	// H of all components as many samples a row as the picture, and V likewise.
	H, V int
	// Table is the number of the quantisation table, 0 to 3.
	Table int
}

// frame is the content of a SOF segment.
type frame struct {
	coding        Coding
	precision     int
	width, height int
	components    []ComponentInfo
}

// Header is what is known of a file before its first scan.
type Header struct {
	// Width and Height in pixels as stored: orientation is not applied.
	Width, Height int
	// Precision of the samples in bits; 8 in all but a few files.
	Precision int
	// Components of the picture, in the order of the file.
	Components []ComponentInfo
	Coding     Coding
	// Model is the colour model as libjpeg deduces it.
	Model ColorModel
	// Orientation is the first EXIF segment's, 1 to 8; 0 where it says nothing.
	Orientation int
	// EXIF is the TIFF structure of the first EXIF segment, a part of the input
	// that starts at EXIFOffset; nil where there is none.
	EXIF       []byte
	EXIFOffset int
	// ICC is the colour profile, put together from its segments; nil where there
	// is none or it is damaged.
	ICC []byte
	// Segments are the COM and APPn segments before the first scan.
	Segments []Segment
	JFIF     JFIF
	Adobe    Adobe
	// ScanOffset is the offset of the first scan's SOS marker: how much of the
	// file it took to know all this.
	ScanOffset int
}

// ParseHeader reads the header of a file from its first bytes, up to the first
// scan. Where they end before it, the error is of the kind
// transcode.ErrTruncated and its Need says how many bytes are needed at least to
// get further; the Header then holds what was found so far. Any coding and any
// number of components is reported, not only those that can be transcoded. A
// height to be defined later, by a DNL segment, is unsupported.
func ParseHeader(prefix []byte, lim Limits) (Header, error) {
	var (
		w  walker
		h  Header
		m  metadata
		fr frame
	)
	if err := w.start(prefix, lim); err != nil {
		return h, err
	}
	hierarchical := false
	fill := func() {
		h.Segments, h.JFIF, h.Adobe = m.segments, m.jfif, m.adobe
		h.EXIF, h.EXIFOffset = m.exif()
		h.Orientation = orientation(h.EXIF)
		h.ICC = m.icc()
		if fr.components != nil {
			h.Width, h.Height, h.Precision = fr.width, fr.height, fr.precision
			h.Components, h.Coding, h.Model = fr.components, fr.coding, m.model(fr.components)
		}
		if hierarchical {
			h.Coding = CodingHierarchical
		}
	}
	for {
		marker, at, err := w.next()
		if err != nil {
			fill()
			return h, err
		}
		if marker == mSOI {
			return h, bad(at, "second SOI")
		}
		if marker == mEOI {
			return h, truncated(at, "EOI before the first scan")
		}
		if isLone(marker) {
			continue
		}
		if marker == mSOS {
			if fr.components == nil {
				return h, bad(at, "scan before SOF")
			}
			h.ScanOffset = at
			fill()
			return h, nil
		}
		p, err := w.payload(at)
		if err != nil {
			fill()
			return h, err
		}
		switch {
		case marker == mDHP:
			hierarchical = true
			fallthrough
		case isSOF(marker) || marker == 0xF7: // FFF7 is JPEG-LS's SOF
			if fr.components != nil && !hierarchical {
				return h, bad(at, "second SOF")
			}
			if fr, err = parseFrame(marker, p, at, w.lim); err != nil {
				return h, err
			}
		case marker == mCOM || marker&0xF0 == mAPP0:
			m.add(Segment{marker, at, p})
		}
	}
}

// parseFrame reads the payload of a SOF or DHP segment: T.81 B.2.2.
func parseFrame(marker byte, p []byte, at int, lim Limits) (frame, error) {
	if len(p) < 6 {
		return frame{}, bad(at, "SOF of %d bytes", len(p))
	}
	f := frame{
		coding:    coding(marker),
		precision: int(p[0]),
		height:    int(p[1])<<8 | int(p[2]),
		width:     int(p[3])<<8 | int(p[4]),
	}
	if marker == 0xF7 {
		f.coding = CodingLossless
	}
	n := int(p[5])
	switch {
	case n == 0 || len(p) != 6+3*n:
		return frame{}, bad(at, "SOF of %d bytes for %d components", len(p), n)
	case f.width == 0:
		return frame{}, bad(at, "width 0")
	case f.height == 0:
		return frame{}, unsupported(at, "height 0, to be defined by DNL")
	case int64(f.width)*int64(f.height) > lim.MaxPixels:
		return frame{}, overLimit(at, "--max-pixels", "%d×%d pixels, more than %d", f.width, f.height, lim.MaxPixels)
	}
	f.components = make([]ComponentInfo, n)
	for i := range f.components {
		q := p[6+3*i:]
		c := ComponentInfo{ID: q[0], H: int(q[1] >> 4), V: int(q[1] & 15), Table: int(q[2])}
		if c.H < 1 || c.H > 4 || c.V < 1 || c.V > 4 {
			return frame{}, bad(at, "sampling factors %d×%d", c.H, c.V)
		}
		if c.Table > 3 {
			return frame{}, bad(at, "quantisation table %d", c.Table)
		}
		f.components[i] = c
	}
	return f, nil
}
