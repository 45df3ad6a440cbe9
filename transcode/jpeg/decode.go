package jpeg

import (
	"bytes"
	"errors"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg/internal/kernel"
)

// decoder is the working memory of a decoding. Its tables outlive a picture,
// since the next one often has the same.
type decoder struct {
	walker
	metadata
	c *Coefficients

	quant    [4][64]uint16 // zigzag order
	quantSet [4]bool
	dcSpec   [4]huffSpec
	acSpec   [4]huffSpec
	dc       [4]huffTable
	ac       [4]huffTable
	restart  int // MCUs, 0 for none

	// progress has, for each component and coefficient, the lowest bit that was
	// delivered so far, or -1.
	progress [maxComponents][64]int8

	bits      []byte // a scan's data, without stuffing
	intervals []interval

	// What becomes of the entropy-coded data: it is decoded; where trace is set,
	// notes are taken; where rebuild is set, the input has none, and it is made.
	framed  bool // SOF was seen
	trace   *trace
	rebuild *rebuilder
	// render makes pixels where it is set: while decoding, if there is only one
	// scan. Coefficients are allocated only if there is more than one.
	render *renderer
	// repair decodes damaged data as far as that goes, into coefficients.
	repair bool

	// The scan at hand.
	at             int // offset of its SOS
	comps          []*scanComponent
	compBuf        [maxComponents]scanComponent
	ss, se, ah, al int
	upTo           int // the MCU after the last one that is needed
	r              bitReader
	eobrun         int
}

// scanComponent is a component while one of its scans is decoded.
type scanComponent struct {
	*Component
	index int
	dcID  int
	acID  int
	dc    *huffTable
	ac    *huffTable
	h, v  int // blocks in an MCU
	pred  int32
}

// maxComponents is how many components are supported: no colour model has
// more.
const maxComponents = 4

// maxMCU is the largest number of blocks in an MCU: T.81 B.2.3.
const maxMCU = 10

// decode reads the coefficients of a whole file: baseline, extended sequential or
// progressive, Huffman-coded, 8 bits, 1 to 4 components. Anything else is unsupported. The
// blocks of c are used again where they suffice; its segments share the memory of src.
//
// A file must be complete: where entropy-coded data, a scan of a component, or EOI is missing
// the error is of the kind transcode.ErrTruncated. Bits that cannot be decoded, and RST
// markers that are missing or out of order, are ErrBad. Bytes that belong to nothing are
// skipped, as libjpeg does with a warning.
func (d *decoder) decode(src []byte, lim Limits, c *Coefficients) error {
	components := c.Components
	*c = Coefficients{Components: components[:0]}
	defer d.reset()
	return d.read(src, lim, c)
}

// reset forgets the picture.
func (d *decoder) reset() {
	d.c, d.src, d.comps, d.metadata, d.compBuf = nil, nil, nil, metadata{}, [maxComponents]scanComponent{}
	d.trace, d.rebuild, d.render, d.repair = nil, nil, nil, false
}

// read goes through all segments of a file.
func (d *decoder) read(src []byte, lim Limits, c *Coefficients) error {
	d.c = c
	d.metadata = metadata{}
	d.quantSet = [4]bool{}
	for i := range 4 {
		d.dcSpec[i].set, d.acSpec[i].set = false, false
	}
	d.restart, d.framed = 0, false
	if err := d.start(src, lim); err != nil {
		return err
	}
	for {
		marker, at, err := d.next()
		if err != nil {
			return d.endless(mCOM, err)
		}
		switch {
		case marker == mSOI:
			return bad(at, "second SOI")
		case marker == mEOI:
			return d.finish(at)
		case isLone(marker):
			continue
		}
		p, err := d.payload(at)
		if err != nil {
			return d.endless(marker, err)
		}
		switch {
		case isSOF(marker):
			err = d.startFrame(marker, p, at)
		case marker == mSOS:
			err = d.scan(p, at)
		case marker == mDHT:
			err = parseDHT(p, at, &d.dcSpec, &d.acSpec)
		case marker == mDQT:
			err = d.parseDQT(p, at)
		case marker == mDRI:
			if len(p) != 2 {
				return bad(at, "DRI of %d bytes", len(p))
			}
			d.restart = int(p[0])<<8 | int(p[1])
		case marker == mCOM || marker&0xF0 == mAPP0:
			s := Segment{marker, p}
			if c.Scans > 0 && (s.isJFIF() || s.isAdobe()) {
				// The colour model is final before the first scan, but a
				// transcoded file has all its metadata there.
				return unsupported(at, "JFIF or Adobe segment after the first scan")
			}
			d.add(s)
		case marker == mDAC:
			// Conditioning of arithmetic coding; harmless.
		case marker == mDNL:
			// libjpeg skips it, whatever it says.
			if !d.repair && (len(p) != 2 || int(p[0])<<8|int(p[1]) != c.Height) {
				return unsupported(at, "DNL that changes the height")
			}
		case marker == mDHP || marker == mEXP || marker == mJPG || marker >= mJPG0:
			return unsupported(at, "marker %02X: hierarchical coding or an extension", marker)
		default:
			return bad(at, "reserved marker %02X", marker)
		}
		if err != nil {
			return err
		}
	}
}

// endless decides on a file that ends within a segment with that marker. In damaged
// data something may look like one that goes on beyond the end. After the only scan of
// a sequential picture nothing is missing, if it is one that libjpeg skips.
func (d *decoder) endless(marker byte, err error) error {
	skipped := marker == mCOM || marker&0xF0 == mAPP0 || marker == mDNL
	if !d.repair || !skipped || d.c.Coding == CodingProgressive || d.c.Scans != 1 || len(d.comps) != len(d.c.Components) ||
		!errors.Is(err, transcode.ErrTruncated) || !bytes.Contains(d.src[d.at:], EOI[:]) {
		return err
	}
	return d.finish(len(d.src))
}

// startFrame takes in a SOF segment and allocates the coefficients.
func (d *decoder) startFrame(marker byte, p []byte, at int) error {
	c := d.c
	if d.framed {
		return bad(at, "second SOF")
	}
	d.framed = true
	f, err := parseFrame(marker, p, at, d.lim)
	if err != nil {
		return err
	}
	switch {
	case f.coding > CodingProgressive:
		return unsupported(at, "%v coding", f.coding)
	case f.precision != 8:
		return unsupported(at, "precision of %d bits", f.precision)
	case len(f.components) > maxComponents:
		return unsupported(at, "%d components", len(f.components))
	}
	for i := range d.progress {
		d.progress[i] = noProgress
	}
	if d.rebuild != nil {
		return d.sameFrame(&f, at)
	}
	n := len(f.components)
	if cap(c.Components) < n {
		c.Components = make([]Component, n)
	}
	c.Components = c.Components[:n]
	c.Width, c.Height, c.Coding = f.width, f.height, f.coding
	size := 0
	for i, info := range f.components {
		for _, other := range f.components[:i] {
			if other.ID == info.ID {
				// Possible in one interleaved scan, but a progressive file could
				// not name the components of its other scans.
				return unsupported(at, "two components with id %d", info.ID)
			}
		}
		c.Components[i].ComponentInfo = info
		size += info.H * info.V
	}
	if n > 1 && size > maxMCU {
		return unsupported(at, "MCU of %d blocks", size)
	}
	blocks := c.layout()
	// Each block takes at least one bit in the first DC scan, and another one
	// for its AC coefficients where it is sequential. The blocks of MCUs that
	// are not interleaved may be fewer than those that are kept.
	least := int64(0)
	for i := range c.Components {
		least += int64(c.Components[i].Wide) * int64(c.Components[i].High)
	}
	if f.coding != CodingProgressive {
		least *= 2
	}
	if least > 8*int64(len(d.src)-d.pos) {
		return truncated(at, "%d blocks cannot be coded in the remaining %d bytes", blocks, len(d.src)-d.pos)
	}
	if d.render == nil {
		c.alloc(f.coding == CodingProgressive)
	}
	return nil
}

// finish checks at EOI that nothing is missing.
func (d *decoder) finish(at int) error {
	c := d.c
	if !d.framed {
		return truncated(at, "EOI before SOF")
	}
	for i := range c.Components {
		if d.progress[i][0] < 0 && (!d.repair || c.Scans == 0) {
			return truncated(at, "no scan of component %d", i)
		}
		// libjpeg cannot write this either, and no known program does. A component that no
		// scan has brought has no table.
		if t := c.Components[i].Table; d.progress[i] != noProgress && d.quant[t] != c.Components[i].Quant {
			return unsupported(at, "quantisation table %d changed between scans", t)
		}
		c.Components[i].missing = [smoothed]int8(d.progress[i][:])
		if c.Scans == 1 {
			c.Components[i].before = [smoothed]int8(noProgress[:])
		}
	}
	c.Segments, c.JFIF = d.segments, d.jfif
	return nil
}

// parseDQT reads the payload of a DQT segment: T.81 B.2.4.1.
func (d *decoder) parseDQT(p []byte, at int) error {
	for len(p) > 0 {
		precision, id := p[0]>>4, p[0]&15
		if id > 3 || precision > 1 {
			return bad(at, "DQT: table %02X", p[0])
		}
		p = p[1:]
		if len(p) < 64<<precision {
			return bad(at, "DQT of wrong length")
		}
		for k := range d.quant[id] {
			if precision == 0 {
				d.quant[id][k] = uint16(p[k])
			} else {
				d.quant[id][k] = uint16(p[2*k])<<8 | uint16(p[2*k+1])
			}
		}
		d.quantSet[id] = true
		p = p[64<<precision:]
	}
	return nil
}

// sequentialMCU decodes n MCUs of a sequential scan: T.81 F.2.
func (d *decoder) sequentialMCU(first, n, end int) bool {
	wide, _ := d.mcuCount()
	row, col := first/wide, first%wide
	for ; n > 0; n-- {
		for _, s := range d.comps {
			for v := range s.v {
				at := (row*s.v+v)*s.Stride + col*s.h
				for h := range s.h {
					b := &s.Blocks[at+h]
					nonzero, diff, ok := d.r.block(b, s.dc, s.ac)
					if !ok || d.r.over(end) {
						return false
					}
					s.pred += diff
					if s.pred != int32(int16(s.pred)) {
						return false
					}
					b[0] = int16(s.pred)
					s.Nonzero[at+h] = nonzero
				}
			}
		}
		col++
	}
	return true
}

// block decodes the coefficients of one block of a sequential scan into b, but
// for the DC coefficient, of which it returns the difference.
func (r *bitReader) block(b *Block, dc, ac *huffTable) (nonzero uint64, diff int32, ok bool) {
	*b = Block{}
	if diff, ok = r.difference(dc); !ok {
		return 0, 0, false
	}
	r.K, r.Nonzero, r.Entry = 0, 0, 0
	ok = r.coefficients(b, ac)
	return r.Nonzero, diff, ok
}

// skip is block where only the difference is wanted; b is changed.
func (r *bitReader) skip(b *Block, dc, ac *huffTable) (diff int32, ok bool) {
	if diff, ok = r.difference(dc); !ok {
		return 0, false
	}
	r.K, r.Entry = 0, 0
	return diff, kernel.Skip(&r.Cursor, r.data, ac.skipping()) == kernel.AtEnd || r.coefficients(b, ac)
}

// difference decodes that of a DC coefficient to the one before it: T.81 F.2.2.1.
func (r *bitReader) difference(dc *huffTable) (diff int32, ok bool) {
	r.fill()
	e := dc.fast[r.Acc>>(64-lookBits)]
	if e&0xFF00 == 0xFF00 {
		r.Acc <<= e & 63
		r.N -= uint(e & 63)
		return int32(e) >> 16, true
	}
	return r.longDifference(dc, e)
}

// longDifference is difference where the table does not know its value.
func (r *bitReader) longDifference(dc *huffTable, e uint32) (diff int32, ok bool) {
	size, length := uint(e>>8), uint(e&63)
	if length == 0 {
		var symbol byte
		if symbol, length = dc.slow(r.Acc); length == 0 {
			return 0, false
		}
		size = uint(symbol)
	}
	r.Acc <<= length & 63
	r.N -= length
	return kernel.Extend(r.take(size), size), true
}

// coefficients decodes the AC coefficients of a block behind r.K.
func (r *bitReader) coefficients(b *Block, ac *huffTable) bool {
	stop := kernel.Coefficients(&r.Cursor, (*[64]int16)(b), r.data, &ac.fast)
	for stop == kernel.AtLong {
		symbol, length := ac.slow(r.Acc)
		if length == 0 {
			break
		}
		r.Entry = uint32(length) | uint32(symbol)<<8
		stop = kernel.Coefficients(&r.Cursor, (*[64]int16)(b), r.data, &ac.fast)
	}
	return stop == kernel.AtEnd
}
