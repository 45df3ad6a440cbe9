package jpeg

import (
	"bytes"
	"fmt"

	"github.com/pipefs/pipefs/transcode"
)

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
	Orientation uint8
	// EXIF is the TIFF structure of the first EXIF segment, a part of the input; nil where
	// there is none.
	EXIF []byte
	// ICC is the colour profile, put together from its segments; nil where there
	// is none or it is damaged.
	ICC []byte
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
		h.EXIF = m.exif()
		h.Orientation = transcode.EXIFOrientation(h.EXIF)
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
			m.add(Segment{marker, p})
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

// Marker codes, the byte after FF: T.81 table B.1.
const (
	mTEM  = 0x01
	mSOF0 = 0xC0
	mSOF1 = 0xC1
	mSOF2 = 0xC2
	mDHT  = 0xC4
	mJPG  = 0xC8
	mDAC  = 0xCC
	mSOFF = 0xCF
	mRST0 = 0xD0
	mRST7 = 0xD7
	mSOI  = 0xD8
	mEOI  = 0xD9
	mSOS  = 0xDA
	mDQT  = 0xDB
	mDNL  = 0xDC
	mDRI  = 0xDD
	mDHP  = 0xDE
	mEXP  = 0xDF
	mAPP0 = 0xE0
	mJPG0 = 0xF0
	mCOM  = 0xFE
)

func isSOF(m byte) bool {
	return m >= mSOF0 && m <= mSOFF && m != mDHT && m != mJPG && m != mDAC
}

func isRST(m byte) bool { return m >= mRST0 && m <= mRST7 }

// isLone reports whether a marker stands alone, without length and payload.
func isLone(m byte) bool {
	return isRST(m) || m == mSOI || m == mEOI || m == mTEM
}

// A walker goes from marker to marker, outside of entropy-coded data.
type walker struct {
	src   []byte
	pos   int
	count int // of segments
	lim   Limits
}

// start checks for SOI, which must be the very first marker.
func (w *walker) start(src []byte, lim Limits) error {
	*w = walker{src: src, lim: lim.orDefaults()}
	if len(src) >= 1 && src[0] != 0xFF || len(src) >= 2 && src[1] != mSOI {
		return bad(0, "does not start with SOI")
	}
	if len(src) < 2 {
		return short(0, len(src), 4)
	}
	w.pos = 2
	return nil
}

// next returns the next marker and the offset of its FF, and moves behind it.
// Any number of FF may come before the code (T.81 B.1.1.2). Anything else
// between segments is skipped, as libjpeg does.
func (w *walker) next() (marker byte, at int, err error) {
	for {
		i := bytes.IndexByte(w.src[w.pos:], 0xFF)
		if i < 0 {
			return 0, w.pos, short(w.pos, len(w.src), len(w.src)+2)
		}
		p := w.pos + i + 1
		for p < len(w.src) && w.src[p] == 0xFF {
			p++
		}
		if p == len(w.src) {
			return 0, p - 1, short(p-1, len(w.src), p+1)
		}
		w.pos = p + 1
		if m := w.src[p]; m != 0 {
			return m, p - 1, nil
		}
	}
}

// payload returns the payload of the segment whose marker next has just returned,
// with its offset, and moves behind it.
func (w *walker) payload(at int) ([]byte, error) {
	if w.src[w.pos-1] != mSOS { // scans have a limit of their own
		w.count++
	}
	if w.count > w.lim.MaxSegments {
		return nil, overLimit(at, "--max-segments", "more than %d segments", w.lim.MaxSegments)
	}
	if len(w.src)-w.pos < 2 {
		return nil, short(at, len(w.src), w.pos+2)
	}
	n := int(w.src[w.pos])<<8 | int(w.src[w.pos+1])
	if n < 2 {
		return nil, bad(at, "segment %02X of length %d", w.src[w.pos-1], n)
	}
	if len(w.src)-w.pos < n {
		return nil, short(at, len(w.src), w.pos+n)
	}
	p := w.src[w.pos+2 : w.pos+n : w.pos+n]
	w.pos += n
	return p, nil
}

// entropyEnd returns the offset of the first marker at or after pos that is
// neither stuffing nor RST, with the FF of fill bytes before it: the end of a
// scan. It returns -1 where there is none.
func entropyEnd(src []byte, pos int) int {
	for {
		i := bytes.IndexByte(src[pos:], 0xFF)
		if i < 0 {
			return -1
		}
		at := pos + i
		pos = at + 1
		for pos < len(src) && src[pos] == 0xFF {
			pos++
		}
		if pos == len(src) {
			return -1
		}
		if m := src[pos]; m != 0 && !isRST(m) {
			return at
		}
		pos++
	}
}

// Error is the error of all functions of this package.
type Error struct {
	// Kind is transcode.ErrBad, ErrUnsupported, ErrTruncated or ErrInternal.
	Kind error
	// Offset says where in the input, in bytes from its start: at the segment or
	// scan at fault, or, for entropy-coded data, at the scan's SOS marker.
	Offset int
	// Need is set where the input ends in the middle of the header: reading on
	// makes no sense with fewer than this many bytes of the file. 0 otherwise.
	Need int
	// Limit says that the file is over one of Limits, and nothing worse.
	Limit bool
	// Detail says what is wrong.
	Detail string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%v: jpeg, byte %d: %s", e.Kind, e.Offset, e.Detail)
}

// Unwrap makes errors.Is(err, transcode.ErrBad) and the like work.
func (e *Error) Unwrap() error { return e.Kind }

func bad(offset int, format string, args ...any) error {
	return &Error{Kind: transcode.ErrBad, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

func unsupported(offset int, format string, args ...any) error {
	return &Error{Kind: transcode.ErrUnsupported, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

func truncated(offset int, format string, args ...any) error {
	return &Error{Kind: transcode.ErrTruncated, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

func internal(format string, args ...any) error {
	return &Error{Kind: transcode.ErrInternal, Detail: fmt.Sprintf(format, args...)}
}

// short is the error for input that ends inside something that takes need bytes.
func short(offset, have, need int) error {
	return &Error{Kind: transcode.ErrTruncated, Offset: offset, Need: need,
		Detail: fmt.Sprintf("input ends after %d bytes, %d or more are needed", have, need)}
}

// Limits bounds what a file may cost. The zero value of each field means its
// default. A file over a limit is unsupported (transcode.ErrUnsupported).
//
// Memory for coefficients is about 136 bytes a block, that is 2.1 bytes a pixel
// and component at full resolution. The transcoder needs about half of that again
// for ordinary pictures, and twice that for noise. It is allocated only once the
// picture's size has been checked against MaxPixels and against the length of the
// file, since every block takes at least one bit.
type Limits struct {
	// MaxPixels is the largest width times height. Default:
	// transcode.DefaultMaxPixels.
	MaxPixels int64
	// MaxScans is the largest number of scans. Default: DefaultMaxScans.
	MaxScans int
	// MaxSegments is the largest number of marker segments that are not scans.
	// Default: DefaultMaxSegments.
	MaxSegments int
}

// Defaults of Limits. A script of libjpeg has at most 18 scans, and a file as
// the largest ICC profiles need has 255 segments for it.
const (
	DefaultMaxScans    = 128
	DefaultMaxSegments = 4096
)

// LimitsOf is the part of l that concerns a JPEG, with the defaults filled in.
func LimitsOf(l transcode.Limits) Limits {
	return Limits{MaxPixels: l.MaxPixels, MaxScans: l.MaxScans, MaxSegments: l.MaxSegments}.orDefaults()
}

// overLimit is the error for a file over the limit that the option raises.
func overLimit(at int, option, format string, args ...any) error {
	return &Error{Kind: transcode.ErrUnsupported, Offset: at, Limit: true,
		Detail: fmt.Sprintf(format, args...) + "; " + option + " raises the limit"}
}

// tooManyScans is the error for the scan at an offset that is one too many.
func (l Limits) tooManyScans(at int) error {
	return overLimit(at, "--max-scans", "more than %d scans", l.MaxScans)
}

func (l Limits) orDefaults() Limits {
	if l.MaxPixels == 0 {
		l.MaxPixels = transcode.DefaultMaxPixels
	}
	if l.MaxScans == 0 {
		l.MaxScans = DefaultMaxScans
	}
	if l.MaxSegments == 0 {
		l.MaxSegments = DefaultMaxSegments
	}
	return l
}
