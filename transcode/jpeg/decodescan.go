package jpeg

// scan reads a scan: its SOS segment, whose payload is p, and the data after it.
func (d *decoder) scan(p []byte, at int) error {
	d.at = at
	if err := d.parseSOS(p); err != nil {
		return err
	}
	if d.rebuild != nil {
		return d.rebuild.scan(d)
	}
	if err := d.buildTables(); err != nil {
		return err
	}
	if d.repair {
		if d.c.Scans == 1 {
			d.c.alloc(true)
		}
		d.eobrun = 0
		return d.repairScan()
	}
	_, total := d.mcuCount()
	end, err := d.unstuff(d.pos, ceilDiv(total, d.perInterval(total)))
	if err != nil {
		return err
	}
	if d.trace != nil {
		d.trace.scans = append(d.trace.scans, span{d.pos, end})
		for _, s := range d.comps {
			if len(d.comps) > 1 {
				d.trace.interleaved[s.index] = true
			}
		}
	}
	if d.render != nil && d.c.Scans == 1 {
		if err := d.startPixels(); err != nil {
			return err
		}
	}
	d.r = bitReader{data: d.bits}
	progressive := d.c.Coding == CodingProgressive
	switch {
	case d.render != nil && d.render.direct:
		err = d.mcus(d.pixelMCU)
	case !progressive:
		err = d.mcus(d.sequentialMCU)
	case d.ss == 0 && d.ah == 0:
		err = d.mcus(d.dcFirstMCU)
	case d.ss == 0:
		err = d.mcus(d.dcRefineMCU)
	case d.ah == 0:
		err = d.mcus(d.acFirstBlocks)
	default:
		err = d.mcus(d.acRefineBlocks)
	}
	d.pos = end
	return err
}

// parseSOS reads a SOS segment, T.81 B.2.3.
func (d *decoder) parseSOS(p []byte) error {
	c, at := d.c, d.at
	if !d.framed {
		return bad(at, "scan before SOF")
	}
	if c.Scans++; c.Scans > d.lim.MaxScans {
		return d.lim.tooManyScans(at)
	}
	if len(p) < 1 || p[0] < 1 || p[0] > 4 || len(p) != 4+2*int(p[0]) {
		return bad(at, "SOS of %d bytes", len(p))
	}
	n := int(p[0])
	if c.Scans == 1 {
		infos := make([]ComponentInfo, len(c.Components))
		for i := range infos {
			infos[i] = c.Components[i].ComponentInfo
		}
		c.Model = d.model(infos)
		if c.Coding != CodingProgressive {
			d.defaultTables()
		}
	}
	d.comps = d.comps[:0]
	size := 0
	for i := range n {
		s, err := d.scanComponent(p[1+2*i], p[2+2*i])
		if err != nil {
			return err
		}
		size += s.h * s.v
	}
	if n == 1 {
		d.comps[0].h, d.comps[0].v = 1, 1
	} else if size > maxMCU {
		return bad(at, "MCU of %d blocks", size)
	}
	p = p[1+2*n:]
	d.ss, d.se, d.ah, d.al = int(p[0]), int(p[1]), int(p[2]>>4), int(p[2]&15)
	if c.Coding == CodingProgressive {
		return d.startProgressive()
	}
	return d.startSequential()
}

// scanComponent adds the component with the given id to the scan.
func (d *decoder) scanComponent(id, tables byte) (*scanComponent, error) {
	c := d.c
	for i := range c.Components {
		p := &c.Components[i]
		if p.ID != id {
			continue
		}
		for _, s := range d.comps {
			if s.index == i {
				return nil, bad(d.at, "component %d twice in one scan", id)
			}
		}
		s := &d.compBuf[len(d.comps)]
		*s = scanComponent{Component: p, index: i, dcID: int(tables >> 4), acID: int(tables & 15), h: p.H, v: p.V}
		d.comps = append(d.comps, s)
		if d.progress[i] == noProgress {
			if !d.quantSet[p.Table] {
				return nil, bad(d.at, "quantisation table %d is not defined", p.Table)
			}
			p.Quant = d.quant[p.Table]
		}
		return s, nil
	}
	return nil, bad(d.at, "scan of unknown component %d", id)
}

var noProgress = func() (p [64]int8) {
	for k := range p {
		p[k] = -1
	}
	return p
}()

func (d *decoder) startSequential() error {
	// Some files have wrong values for the band, which means nothing here.
	for _, s := range d.comps {
		if d.progress[s.index] != noProgress {
			return bad(d.at, "second scan of component %d", s.ID)
		}
		d.progress[s.index] = [64]int8{}
	}
	return nil
}

// startProgressive checks the band against T.81 G.1.1.1 and against what was
// delivered before. AC scans before the first DC scan are let pass.
func (d *decoder) startProgressive() error {
	if d.ss == 0 && d.se != 0 || d.ss > 0 && (d.se < d.ss || d.se > 63 || len(d.comps) > 1) ||
		d.al > 13 || d.ah > 0 && d.al != d.ah-1 {
		return bad(d.at, "scan of %d components for band %d–%d, bits %d,%d", len(d.comps), d.ss, d.se, d.ah, d.al)
	}
	if d.repair {
		d.advance()
		return nil
	}
	for _, s := range d.comps {
		before := int8(d.ah)
		if d.ah == 0 {
			before = -1
		}
		for k := d.ss; k <= d.se; k++ {
			if d.progress[s.index][k] != before {
				return bad(d.at, "scan for coefficient %d, bits %d,%d, out of order", k, d.ah, d.al)
			}
			d.progress[s.index][k] = int8(d.al)
		}
	}
	return nil
}

// advance takes note of what a scan of a damaged file brings, in whatever order its
// scans are. Before the first one libjpeg-turbo takes all for known, and where there
// is no other one, nothing: see finish.
func (d *decoder) advance() {
	for _, s := range d.comps {
		progress, before := &d.progress[s.index], &s.before
		for k := min(d.ss, 1); k < smoothed; k++ {
			if before[k] = progress[k]; d.c.Scans == 1 {
				before[k] = 0
			}
		}
		for k := d.ss; k <= d.se; k++ {
			progress[k] = int8(d.al)
		}
	}
}

// needs says which tables a component of the scan at hand takes.
func (d *decoder) needs() (dc, ac bool) {
	if d.c.Coding != CodingProgressive {
		return true, true
	}
	return d.ss == 0 && d.ah == 0, d.ss > 0
}

// buildTables makes the tables that the scan names ready for decoding.
func (d *decoder) buildTables() error {
	dc, ac := d.needs()
	for _, s := range d.comps {
		if dc {
			spec, err := d.dcTable(s)
			if err != nil {
				return err
			}
			if s.dc = &d.dc[s.dcID]; !s.dc.build(tableDC, spec) {
				return bad(d.at, "DC table %d is invalid", s.dcID)
			}
		}
		if ac {
			spec, err := d.acTable(s)
			if err != nil {
				return err
			}
			if s.ac = &d.ac[s.acID]; !s.ac.build(tableAC, spec) {
				return bad(d.at, "AC table %d is invalid", s.acID)
			}
		}
	}
	return nil
}

func (d *decoder) dcTable(s *scanComponent) (*huffSpec, error) {
	if s.dcID > 3 || !d.dcSpec[s.dcID].set {
		return nil, bad(d.at, "DC table %d is not defined", s.dcID)
	}
	return &d.dcSpec[s.dcID], nil
}

func (d *decoder) acTable(s *scanComponent) (*huffSpec, error) {
	if s.acID > 3 || !d.acSpec[s.acID].set {
		return nil, bad(d.at, "AC table %d is not defined", s.acID)
	}
	return &d.acSpec[s.acID], nil
}

// defaultTables gives tables 0 and 1 their values where the file has not.
func (d *decoder) defaultTables() {
	if d.dcSpec[0].set && d.dcSpec[1].set && d.acSpec[0].set && d.acSpec[1].set {
		return
	}
	dc, ac := annexK()
	for i := range 2 {
		if !d.dcSpec[i].set {
			d.dcSpec[i] = dc[i]
		}
		if !d.acSpec[i].set {
			d.acSpec[i] = ac[i]
		}
	}
}

// mcuCount returns how many MCUs the scan has in a row and in total. An MCU of a
// single component is one block: T.81 A.2.2.
func (d *decoder) mcuCount() (wide, total int) {
	if len(d.comps) == 1 {
		return d.comps[0].Wide, d.comps[0].Wide * d.comps[0].High
	}
	wide, high := d.c.mcus()
	return wide, wide * high
}

// perInterval returns how many MCUs a restart interval has, of total.
func (d *decoder) perInterval(total int) int {
	if d.restart > 0 {
		return min(d.restart, total)
	}
	return total
}

// mcus calls decode for the MCUs of a scan that are needed, and those before them in the
// same restart interval: n MCUs from number first on, which is a row of MCUs or a part of
// one. decode returns false where it meets an invalid code or reads beyond the end of the
// interval.
func (d *decoder) mcus(decode func(first, n, end int) bool) error {
	wide, total := d.mcuCount()
	from, to := 0, total
	if d.render != nil {
		from, to = d.render.needed(d, wide)
	}
	d.upTo = to
	perInterval := d.perInterval(total)
	start, next := 0, 0
	for first := 0; first < to; first += perInterval {
		if next == len(d.intervals) {
			return d.over(d.intervals[next-1].rst, first, total)
		}
		iv := d.intervals[next]
		next++
		d.r.reset(start)
		d.eobrun = 0
		for _, s := range d.comps {
			s.pred = 0
		}
		last := min(first+perInterval, total)
		m := first
		if last <= from {
			m = last
		}
		for m < min(last, to) {
			n := min(wide-m%wide, min(last, to)-m)
			if !decode(m, n, iv.end) {
				if d.r.over(iv.end) {
					return d.over(iv.rst, m, total)
				}
				return bad(d.at, "invalid code in scan %d, near MCU %d of %d", d.c.Scans, m, total)
			}
			m += n
		}
		if d.eobrun > 0 && m == last {
			return bad(d.at, "end-of-band run of scan %d goes on after the last block", d.c.Scans)
		}
		if d.trace != nil {
			d.trace.interval(&d.r, iv.end)
		}
		start = iv.end
		if last < total && isRST(iv.rst) && iv.rst != mRST0+byte(next-1)&7 {
			return bad(d.at, "RST%d instead of RST%d", iv.rst-mRST0, (next-1)&7)
		}
	}
	// What is left belongs to nothing. An RST after the last MCU is common.
	if d.trace != nil {
		d.trace.after(d.intervals[len(d.intervals)-1].end-start, len(d.intervals)-next)
	}
	return nil
}

// over is the error for data that ends, at the given marker, before MCU m.
func (d *decoder) over(marker byte, m, total int) error {
	if marker == mEOI {
		return truncated(d.at, "data of scan %d ends near MCU %d of %d", d.c.Scans, m, total)
	}
	return bad(d.at, "data of scan %d ends near MCU %d of %d, at marker %02X", d.c.Scans, m, total, marker)
}
