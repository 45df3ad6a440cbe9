package jpeg

import (
	"math/bits"
	"slices"
)

// encoder is the working memory of an encoding.
type encoder struct {
	bitWriter
	c      *Coefficients
	script []scan

	dcTokens []token
	dcFreq   [2]histogram // of both DC tables
	streams  []stream     // one for each scan of the script; unused for DC
	trees    [2]treeBuilder
	codes    [512]uint32 // by symbol; for DC, table 1 from dcTable1 on
	mcu      []mcuBlock
	ends     []int
}

// dcTable1 is where the symbols of DC table 1 start in tokens.
const dcTable1 = 16

// size is roughly the memory that e holds on to, in bytes.
func (e *encoder) size() int {
	n := len(e.buf) + 4*cap(e.dcTokens)
	for i := range e.streams {
		n += 4 * len(e.streams[i].tokens)
	}
	return n
}

// encode codes the picture with optimal Huffman tables and with libjpeg's default script, or
// with what is left of it where the file will not be cut at all levels. All metadata is kept
// in front of the first scan. The error is transcode.ErrBad where a coefficient is larger than
// 8-bit samples can make it.
func (e *encoder) encode(c *Coefficients, cuts Cuts) (Scans, error) {
	e.c = c
	defer func() { e.c = nil }()
	var levels [10]uint8
	e.script, levels = cuts.script(len(c.Components), c.Model)
	if err := e.tokenize(); err != nil {
		return Scans{}, err
	}
	e.start(0)
	e.header(mSOF2)
	e.ends = e.ends[:0]
	for i := range e.script {
		e.scan(i)
		e.ends = append(e.ends, e.pos)
	}
	e.bytes(0xFF, mEOI)

	return Scans{
		Data: append([]byte(nil), e.buf[:e.pos]...), Ends: append([]int(nil), e.ends...), Levels: levels,
	}, nil
}

// start begins a file of about size bytes.
func (e *encoder) start(size int) {
	if size = max(size, 64<<10); len(e.buf) < size {
		e.buf = make([]byte, size+size/8)
	}
	e.pos, e.acc, e.free = 0, 0, 64
}

// stream returns stream i, which exists from then on.
func (e *encoder) stream(i int) *stream {
	for len(e.streams) <= i {
		e.streams = append(e.streams, stream{})
	}
	return &e.streams[i]
}

// tokenize walks all coefficients once and leaves the tokens of all scans.
func (e *encoder) tokenize() error {
	e.stream(len(e.script) - 1)
	if !e.tokenizeDC(e.script[0].al) {
		return bad(0, "DC coefficient out of range")
	}
	var lines [10]scan
	var streams [10]*stream
	for i := range e.c.Components {
		n := 0
		for j, line := range e.script {
			if line.component == i {
				e.streams[j].reset()
				lines[n], streams[n] = line, &e.streams[j]
				lines[n].component = 0
				n++
			}
		}
		if !tokenizeAC(&e.c.Components[i], lines[:n], streams[:n]) {
			return bad(0, "AC coefficient out of range")
		}
	}
	return nil
}

// scan writes scan i of the script: its tables, its SOS segment and its data.
func (e *encoder) scan(i int) {
	line := e.script[i]
	switch {
	case line.ss > 0:
		s := &e.streams[i]
		table := e.c.table(line.component)
		codes := e.trees[0].build(&s.freq)
		e.dht(0x10|table, &codes)
		codes.fill(e.codes[:])
		e.sos(line)
		e.codes[rawSymbol] = 0
		e.tokens(s.tokens[:s.n], &e.codes)
	case line.ah == 0:
		for table := range e.c.tables() {
			codes := e.trees[table].build(&e.dcFreq[table])
			e.dht(byte(table), &codes)
			codes.fill(e.codes[table*dcTable1:])
		}
		e.sos(line)
		e.tokens(e.dcTokens, &e.codes)
	default:
		e.sos(line)
		e.refineDC()
	}
	e.flush(padding)
}

// table is the number of a component's Huffman tables: chroma uses tables 1,
// everything else tables 0.
func (c *Coefficients) table(component int) byte {
	if (c.Model == ModelYCbCr || c.Model == ModelYCCK) && (component == 1 || component == 2) {
		return 1
	}
	return 0
}

// tables is the number of Huffman tables of a class.
func (c *Coefficients) tables() int {
	if len(c.Components) > 1 {
		return 1 + int(c.table(1))
	}
	return 1
}

// header writes everything before the first scan, in the order and with the
// choices of jpegtran -copy all.
func (e *encoder) header(sof byte) {
	c := e.c
	e.bytes(0xFF, mSOI)
	// libjpeg writes a JFIF or Adobe segment of its own, instead of those of the
	// file. jpegtran leaves JFIF out where the file starts with EXIF, which must
	// come first.
	jfif := c.Model == ModelGrey || c.Model == ModelYCbCr
	if len(c.Segments) > 0 && c.Segments[0].isEXIF() {
		jfif = false
	}
	adobe := c.Model == ModelRGB || c.Model == ModelCMYK || c.Model == ModelYCCK
	if jfif {
		j := JFIF{Major: 1, Minor: 1, XDensity: 1, YDensity: 1}
		if c.JFIF.Present {
			j.Unit, j.XDensity, j.YDensity = c.JFIF.Unit, c.JFIF.XDensity, c.JFIF.YDensity
			if c.JFIF.Major == 1 {
				j.Major, j.Minor = c.JFIF.Major, c.JFIF.Minor
			}
		}
		e.bytes(0xFF, mAPP0, 0, 16, 'J', 'F', 'I', 'F', 0, j.Major, j.Minor, j.Unit,
			byte(j.XDensity>>8), byte(j.XDensity), byte(j.YDensity>>8), byte(j.YDensity), 0, 0)
	}
	if adobe {
		transform := byte(0)
		if c.Model == ModelYCCK {
			transform = 2
		}
		e.bytes(0xFF, mAPP0+14, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, transform)
	}
	for _, s := range c.Segments {
		if jfif && s.isJFIF() || adobe && s.isAdobe() {
			continue
		}
		n := len(s.Data) + 2
		e.bytes(0xFF, s.Marker, byte(n>>8), byte(n))
		e.bytes(s.Data...)
	}
	var sent [4]bool
	for i := range c.Components {
		if t := c.Components[i].Table & 3; !sent[t] {
			sent[t] = true
			e.dqt(byte(t), &c.Components[i].Quant)
		}
	}
	n := len(c.Components)
	e.bytes(0xFF, sof, 0, byte(8+3*n), 8, byte(c.Height>>8), byte(c.Height), byte(c.Width>>8), byte(c.Width), byte(n))
	for i := range c.Components {
		p := &c.Components[i]
		factors := byte(p.H<<4 | p.V)
		if n == 1 {
			// They mean nothing, and jpegtran says that some decoders choke on
			// other ones.
			factors = 0x11
		}
		e.bytes(p.ID, factors, byte(p.Table))
	}
}

// dqt writes a quantisation table, with 8 bits where they suffice.
func (e *encoder) dqt(id byte, q *[64]uint16) {
	wide := false
	for _, v := range q {
		wide = wide || v > 255
	}
	if !wide {
		e.bytes(0xFF, mDQT, 0, 67, id)
		for _, v := range q {
			e.bytes(byte(v))
		}
		return
	}
	e.bytes(0xFF, mDQT, 0, 131, 0x10|id)
	for _, v := range q {
		e.bytes(byte(v>>8), byte(v))
	}
}

func (e *encoder) dht(id byte, codes *huffCodes) {
	n := 19 + len(codes.values)
	e.bytes(0xFF, mDHT, byte(n>>8), byte(n), id)
	e.bytes(codes.counts[1:]...)
	e.bytes(codes.values...)
}

// sos writes a SOS segment. Tables that the scan does not need are given as 0; a
// sequential scan, of which all bits come at once, needs both.
func (e *encoder) sos(line scan) {
	first, n := line.component, 1
	if first == allComponents {
		first, n = 0, len(e.c.Components)
	}
	e.bytes(0xFF, mSOS, 0, byte(6+2*n), byte(n))
	for i := first; i < first+n; i++ {
		tables := byte(0)
		switch {
		case line.ss == 0 && line.se > 0:
			tables = e.c.table(i) * 0x11
		case line.ss > 0:
			tables = e.c.table(i)
		case line.ah == 0:
			tables = e.c.table(i) << 4
		}
		e.bytes(e.c.Components[i].ID, tables)
	}
	e.bytes(byte(line.ss), byte(line.se), byte(line.ah<<4|line.al))
}

// Sequential transcodes a whole file to a sequential one without loss, which
// some decoders read faster than a progressive one. The result equals that of
// jpegtran -copy all -optimize byte for byte: one scan, optimal Huffman tables,
// no restart markers, and metadata as in Progressive. It takes and refuses what
// Progressive does. Of a file that was cut after a few scans it makes the picture
// that these give, without the smoothing by which decoders of progressive files
// hide what is missing.
func Sequential(src []byte, lim Limits) ([]byte, error) {
	w := workspaces.Get().(*workspace)
	defer w.release()
	defer func() { w.c.Segments = nil }() // they are parts of src
	if err := w.dec.decode(src, lim, &w.c); err != nil {
		return nil, err
	}
	return w.enc.encodeSequential(&w.c)
}

// encodeSequential makes the dummy blocks of c flat.
func (e *encoder) encodeSequential(c *Coefficients) ([]byte, error) {
	e.c = c
	defer func() { e.c = nil }()
	var all [maxComponents]scanComponent
	var comps []*scanComponent
	for i := range c.Components {
		p := &c.Components[i]
		p.flatten()
		s := &all[i]
		*s = scanComponent{Component: p, index: i, h: p.H, v: p.V}
		comps = append(comps, s)
	}
	wide, high := c.mcus()
	if len(comps) == 1 {
		s := comps[0]
		wide, high, s.h, s.v = s.Wide, s.High, 1, 1
	}
	freq := new([2][2]histogram) // DC, AC
	for row := range high {
		c.count(comps, row, wide, freq)
	}
	for size, n := range freq[0][0] {
		if size > 11 && n+freq[0][1][size] > 0 {
			return nil, bad(0, "DC coefficient out of range")
		}
	}
	for symbol, n := range freq[1][0] {
		if symbol&15 > 10 && n+freq[1][1][symbol] > 0 {
			return nil, bad(0, "AC coefficient out of range")
		}
	}
	e.start(0)
	sof := byte(mSOF0)
	for i := range c.Components {
		// Baseline has 8 bits for these: T.81 B.2.4.1.
		if slices.Max(c.Components[i].Quant[:]) > 255 {
			sof = mSOF1
		}
	}
	e.header(sof)
	codes := new([2][2]codeTable)
	for table := range c.tables() {
		for class := range 2 {
			made := e.trees[0].build(&freq[class][table])
			e.dht(byte(class<<4|table), &made)
			made.fill(codes[class][table][:])
		}
	}
	var tables [maxComponents]seqTables
	for i := range comps {
		t := c.table(i)
		comps[i].pred = 0
		tables[i] = seqTables{&codes[0][t], &codes[1][t]}
	}
	e.sos(scan{component: allComponents, se: 63})
	for row := range high {
		if !e.sequential(comps, &tables, wide, row*wide, wide) {
			return nil, internal("a symbol has no code")
		}
	}
	e.flush(padding)
	e.bytes(0xFF, mEOI)
	return append([]byte(nil), e.buf[:e.pos]...), nil
}

// count counts the symbols of a row of MCUs.
func (c *Coefficients) count(comps []*scanComponent, row, wide int, freq *[2][2]histogram) {
	for col := range wide {
		for i, s := range comps {
			dc, ac := &freq[0][c.table(i)], &freq[1][c.table(i)]
			for v := range s.v {
				at := (row*s.v+v)*s.Stride + col*s.h
				for h := range s.h {
					b := &s.Blocks[at+h]
					dc[bitLen(int32(b[0])-s.pred)]++
					s.pred = int32(b[0])
					next := 1
					for m := s.Nonzero[at+h] &^ 1; m != 0; m &= m - 1 {
						k := bits.TrailingZeros64(m) & 63
						zeros := k - next
						next = k + 1
						for ; zeros > 15; zeros -= 16 {
							ac[symbolZRL]++
						}
						ac[(uint(zeros)<<4|min(bitLen(int32(b[k])), 15))&255]++
					}
					if next < 64 {
						ac[0]++
					}
				}
			}
		}
	}
}

// seqTables are the codes of a component in a sequential scan.
type seqTables struct{ dc, ac *codeTable }

// maxBlockBytes is more than a block takes in a sequential scan: 64 codes of 16
// bits with up to 16 bits after them, all bytes stuffed, and one word.
const maxBlockBytes = 64*4*2 + 16

// sequential writes n MCUs of one row of a sequential scan of comps, from number
// first on, where a row has wide of them: T.81 F.1.2. It returns false where a
// symbol has no code.
func (e *encoder) sequential(comps []*scanComponent, tables *[maxComponents]seqTables, wide, first, n int) bool {
	row, col := first/wide, first%wide
	e.reserve(n*maxMCU*maxBlockBytes + 32)
	for ; n > 0; n-- {
		for i, s := range comps {
			t := &tables[i]
			for v := range s.v {
				at := (row*s.v+v)*s.Stride + col*s.h
				for h := range s.h {
					b := &s.Blocks[at+h]
					diff := int32(b[0]) - s.pred
					s.pred = int32(b[0])
					if !e.block(b, s.Nonzero[at+h], diff, t.dc, t.ac) {
						return false
					}
				}
			}
		}
		col++
	}
	return true
}

// block writes a block of a sequential scan; maxBlockBytes must be free.
func (w *bitWriter) block(b *Block, nonzero uint64, diff int32, dc, ac *codeTable) bool {
	buf, pos, acc, free := w.buf, w.pos, w.acc, w.free
	size := bitLen(diff)
	code := dc[size&31]
	if code == 0 {
		return false
	}
	v := uint64(code>>8)<<size | uint64(uint32(diff+diff>>31)&(1<<size-1))
	if free -= int(code&31) + int(size); free >= 0 {
		acc |= v << (free & 63)
	} else {
		pos = store(buf, pos, acc|v>>(-free&63))
		free += 64
		acc = v << (free & 63)
	}
	next := 1 // the first coefficient not coded yet
	for m := nonzero &^ 1; m != 0; m &= m - 1 {
		k := bits.TrailingZeros64(m) & 63
		zeros := k - next
		next = k + 1
		c := int32(b[k])
		sign := c >> 31
		size := uint(bits.Len32(uint32((c ^ sign) - sign)))
		for ; zeros > 15; zeros -= 16 {
			code := ac[symbolZRL]
			if code == 0 {
				return false
			}
			if free -= int(code & 31); free >= 0 {
				acc |= uint64(code>>8) << (free & 63)
			} else {
				pos = store(buf, pos, acc|uint64(code>>8)>>(-free&63))
				free += 64
				acc = uint64(code>>8) << (free & 63)
			}
		}
		code := ac[(uint(zeros)<<4|size)&255]
		if code == 0 || size > 15 {
			return false
		}
		v := uint64(code>>8)<<size | uint64(uint32(c+sign)&(1<<size-1))
		if free -= int(code&31) + int(size); free >= 0 {
			acc |= v << (free & 63)
			continue
		}
		pos = store(buf, pos, acc|v>>(-free&63))
		free += 64
		acc = v << (free & 63)
	}
	if next < 64 {
		code := ac[0]
		if code == 0 {
			return false
		}
		if free -= int(code & 31); free >= 0 {
			acc |= uint64(code>>8) << (free & 63)
		} else {
			pos = store(buf, pos, acc|uint64(code>>8)>>(-free&63))
			free += 64
			acc = uint64(code>>8) << (free & 63)
		}
	}
	w.pos, w.acc, w.free = pos, acc, free
	return true
}
