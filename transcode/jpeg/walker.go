package jpeg

import "bytes"

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
	src     []byte
	pos     int
	skipped int // bytes that belonged to nothing
	count   int // of segments
	lim     Limits
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
// between segments is skipped, as libjpeg does, and counted.
func (w *walker) next() (marker byte, at int, err error) {
	for {
		i := bytes.IndexByte(w.src[w.pos:], 0xFF)
		if i < 0 {
			return 0, w.pos, short(w.pos, len(w.src), len(w.src)+2)
		}
		w.skipped += i
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
		w.skipped += 2
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
