package jpeg

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
