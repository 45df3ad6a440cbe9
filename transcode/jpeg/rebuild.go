package jpeg

import "encoding/binary"

// rebuilder makes a file from its skeleton and its coefficients: a decoder goes
// through the segments, and where it comes to a scan, the entropy-coded data is
// written instead of read.
type rebuilder struct {
	e        *encoder
	skeleton []byte
	copied   int // how much of the skeleton is in the output
	pads     pads
	codes    [2][4]codeTable // DC, AC
}

// codeTable has the code of each symbol above its low byte, and the length of the
// code in it; 0 where there is none.
type codeTable [256]uint32

// run returns the file, which has about size bytes.
func (r *rebuilder) run(d *decoder, c *Coefficients, lim Limits, size int) ([]byte, error) {
	r.e.start(size)
	defer d.reset()
	d.rebuild = r
	c.Scans = 0
	if err := d.read(r.skeleton, lim, c); err != nil {
		return nil, err
	}
	r.e.bytes(r.skeleton[r.copied:]...)
	return append([]byte(nil), r.e.buf[:r.e.pos]...), nil
}

// sameFrame takes in a SOF segment of a skeleton.
func (d *decoder) sameFrame(f *frame, at int) error {
	c := d.c
	same := f.coding <= CodingProgressive && f.precision == 8 && f.width == c.Width && f.height == c.Height &&
		len(f.components) == len(c.Components)
	for i := 0; same && i < len(f.components); i++ {
		info, p := f.components[i], &c.Components[i]
		// The factors of a single component mean nothing; see encoder.header.
		same = info.ID == p.ID && (len(c.Components) == 1 || info.H == p.H && info.V == p.V)
	}
	if !same {
		return bad(at, "SOF does not belong to these coefficients")
	}
	for i := range c.Components {
		c.Components[i].ComponentInfo = f.components[i]
	}
	c.Coding = f.coding
	return nil
}

// scan writes what comes before the data of the scan whose SOS d has just read,
// and the data.
func (r *rebuilder) scan(d *decoder) error {
	r.e.bytes(r.skeleton[r.copied:d.pos]...)
	r.copied = d.pos
	if err := r.fillCodes(d); err != nil {
		return err
	}
	write := r.progressiveScan(d)
	if d.c.Coding != CodingProgressive {
		write = r.sequentialMCUs
	}
	wide, total := d.mcuCount()
	perInterval := d.perInterval(total)
	for n, first := 0, 0; first < total; n, first = n+1, first+perInterval {
		if n > 0 {
			r.e.bytes(0xFF, mRST0+byte(n-1)&7)
		}
		for _, s := range d.comps {
			s.pred = 0
		}
		last := min(first+perInterval, total)
		for m := first; m < last; {
			// As many as are in one row.
			n := min(wide-m%wide, last-m)
			if !write(d, m, n) {
				return bad(d.at, "a symbol of scan %d has no code", d.c.Scans)
			}
			m += n
		}
		if d.ss > 0 && !r.writeTokens(d) {
			return bad(d.at, "a symbol of scan %d has no code", d.c.Scans)
		}
		r.e.flush(r.pads.next())
	}
	return nil
}

// fillCodes makes the codes of the tables that the scan names.
func (r *rebuilder) fillCodes(d *decoder) error {
	dc, ac := d.needs()
	for _, s := range d.comps {
		if dc {
			spec, err := d.dcTable(s)
			if err != nil {
				return err
			}
			spec.fill(&r.codes[0][s.dcID])
		}
		if ac {
			spec, err := d.acTable(s)
			if err != nil {
				return err
			}
			spec.fill(&r.codes[1][s.acID])
		}
	}
	return nil
}

// fill sets the codes of all symbols. A table with too many codes gets some that no
// decoder can read. Callers compare the result with the checksum of the file.
func (s *huffSpec) fill(t *codeTable) {
	*t = codeTable{}
	code, k := uint32(0), 0
	for l := 1; l <= 16; l++ {
		for range s.counts[l] {
			t[s.values[k&255]] = code&0xFFFF<<8 | uint32(l)
			code++
			k++
		}
		code <<= 1
	}
}

// sequentialMCUs writes n MCUs of one row of a sequential scan.
func (r *rebuilder) sequentialMCUs(d *decoder, first, n int) bool {
	var tables [maxComponents]seqTables
	for i, s := range d.comps {
		tables[i] = seqTables{&r.codes[0][s.dcID], &r.codes[1][s.acID]}
	}
	wide, _ := d.mcuCount()
	return r.e.sequential(d.comps, &tables, wide, first, n)
}

// progressiveScan returns what writes MCUs of the progressive scan at hand.
func (r *rebuilder) progressiveScan(d *decoder) func(d *decoder, first, n int) bool {
	switch {
	case d.ss == 0 && d.ah == 0:
		return r.firstDC
	case d.ss == 0:
		return r.refineDC
	}
	s := r.e.stream(0)
	line := scan{0, d.ss, d.se, d.ah, d.al}
	return func(d *decoder, first, n int) bool {
		return tokenizeBand(d.comps[0].Component, line, s, first, n)
	}
}

// writeTokens writes the interval of an AC scan that was tokenized.
func (r *rebuilder) writeTokens(d *decoder) bool {
	s := r.e.stream(0)
	s.finish(d.ah > 0)
	codes := &r.codes[1][d.comps[0].acID]
	for symbol, n := range s.freq {
		if n > 0 && codes[symbol] == 0 {
			return false
		}
	}
	copy(r.e.codes[:], codes[:])
	r.e.codes[rawSymbol] = 0
	r.e.tokens(s.tokens[:s.n], &r.e.codes)
	s.reset()
	return true
}

func (r *rebuilder) firstDC(d *decoder, first, n int) bool {
	r.e.reserve(n*maxMCU*8 + 32)
	return d.eachBlock(first, n, func(s *scanComponent, at int) bool {
		v := int32(s.Blocks[at][0]) >> d.al
		diff := v - s.pred
		s.pred = v
		size := bitLen(diff)
		code := r.codes[0][s.dcID][size]
		r.e.put(uint64(code>>8)<<size|uint64(diff+diff>>31)&(1<<size-1), int(code&31)+int(size))
		return code != 0
	})
}

func (r *rebuilder) refineDC(d *decoder, first, n int) bool {
	r.e.reserve(n*maxMCU/4 + 32)
	return d.eachBlock(first, n, func(s *scanComponent, at int) bool {
		r.e.put(uint64(s.Blocks[at][0]>>d.al&1), 1)
		return true
	})
}

const (
	deltaMatch = 6 // bytes that are worth a copy
	deltaBits  = 12
)

// dictionary returns what a skeleton probably shares: everything in the
// transcoded file that is not entropy-coded data, and the Huffman tables of T.81
// K.3, which most encoders use.
func dictionary(transcoded []byte, lim Limits) ([]byte, error) {
	var w walker
	if err := w.start(transcoded, lim); err != nil {
		return nil, err
	}
	var dict []byte
	for from := 0; ; {
		marker, at, err := w.next()
		if err != nil {
			return nil, err
		}
		if marker == mEOI {
			dict = append(dict, transcoded[from:at+2]...)
			return append(dict, annexKSegments...), nil
		}
		if isLone(marker) {
			continue
		}
		if _, err := w.payload(at); err != nil {
			return nil, err
		}
		if marker == mSOS {
			dict = append(dict, transcoded[from:w.pos]...)
			if from = entropyEnd(transcoded, w.pos); from < 0 {
				return nil, truncated(len(transcoded), "no marker after the data of a scan")
			}
			w.pos = from
		}
	}
}

// annexKSegments are the tables of T.81 K.3 as libjpeg writes them: DHT segments
// for DC 0, AC 0, DC 1 and AC 1.
var annexKSegments = func() (b []byte) {
	dc, ac := annexK()
	for i := range 2 {
		for class, s := range []*huffSpec{&dc[i], &ac[i]} {
			b = append(b, 0xFF, mDHT, 0, byte(19+s.n), byte(class<<4|i))
			b = append(b, s.counts[1:]...)
			b = append(b, s.values[:s.n]...)
		}
	}
	return b
}()

// appendDelta writes data as pieces of the dictionary: again and again a uvarint,
// the number of bytes that follow it as they are, then a uvarint, the number of
// bytes to copy from the dictionary, and where that is not 0 a varint, how far
// its place there is from the end of the copy before.
func appendDelta(b, data, dict []byte) []byte {
	var table [1 << deltaBits]int32
	hash := func(p []byte) uint32 { return binary.LittleEndian.Uint32(p) * 0x9E3779B1 >> (32 - deltaBits) }
	for i := len(dict) - 4; i >= 0; i-- {
		table[hash(dict[i:])] = int32(i + 1)
	}
	literal, next := 0, 0
	for i := 0; i+4 <= len(data); {
		// What follows the copy before is tried first.
		from := next
		n := common(data[i:], dict[min(from, len(dict)):])
		if n < deltaMatch {
			from = int(table[hash(data[i:])]) - 1
			if n = 0; from >= 0 {
				n = common(data[i:], dict[from:])
			}
		}
		if n < deltaMatch {
			i++
			// A byte that was changed leaves the rest in step.
			next++
			continue
		}
		b = binary.AppendUvarint(b, uint64(i-literal))
		b = append(b, data[literal:i]...)
		b = binary.AppendUvarint(b, uint64(n))
		b = appendVarint(b, from-(next-(i-literal)))
		i += n
		literal, next = i, from+n
	}
	return appendLiteral(b, data[literal:])
}

// appendLiteral writes the end of a delta: data as it is.
func appendLiteral(b, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(data)))
	b = append(b, data...)
	return binary.AppendUvarint(b, 0)
}

// common is the length of the longest common beginning.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// readDelta reads size bytes that appendDelta wrote.
func readDelta(u *reconstructionReader, size int, dict []byte) []byte {
	var out []byte
	next := 0
	for !u.failed {
		literal := u.take(u.uvarint())
		n := u.uvarint()
		if len(literal)+n > size-len(out) {
			break
		}
		out = append(out, literal...)
		if n == 0 {
			if len(out) == size && !u.failed {
				return out
			}
			break
		}
		from := next + u.varint()
		if from < 0 || from > len(dict)-n {
			break
		}
		out = append(out, dict[from:from+n]...)
		next = from + n
	}
	u.failed = true
	return nil
}
