package jpeg

import "github.com/pipefs/pipefs/transcode/jpeg/internal/kernel"

// Damaged entropy-coded data is decoded as libjpeg decodes it, which warns and goes
// on: an invalid code is symbol 0, what is missing before a marker is zero bits, and
// MCUs after that stay as they are, up to the next restart marker.

// repairer reads entropy-coded data bit by bit, from the file itself.
type repairer struct {
	d      *decoder
	pos    int    // of the next byte in the file
	acc    uint64 // the last n bits that were loaded and not taken, at the bottom
	n      uint
	marker byte // that was met and not taken; 0 for none
	short  bool // bits were taken that are not there
	ended  bool // the file ends in the data: it is truncated
	mixed  bool // FF FF 00, see unstuff
	next   int  // number of the restart marker that is expected
}

// repairScan decodes the data of a scan whatever it holds, and leaves d.pos at the
// marker that is to be read next.
func (d *decoder) repairScan() error {
	r := repairer{d: d, pos: d.pos}
	wide, total := d.mcuCount()
	for m := range total {
		if d.restart > 0 && m > 0 && m%d.restart == 0 {
			r.restart()
		}
		if !r.short {
			d.c.doubtful = 1 + m/wide
			if len(d.comps) == 1 {
				d.c.doubtful = 1 + m/wide/d.comps[0].V
			}
		}
		if !r.short || d.c.Coding == CodingProgressive && d.ss == 0 && d.ah > 0 {
			if !r.mcu(m/wide, m%wide) {
				return bad(d.at, "a DC coefficient of scan %d is out of range", d.c.Scans)
			}
		}
		switch {
		case r.ended:
			return truncated(len(d.src), "no marker after the data of scan %d", d.c.Scans)
		case r.mixed:
			return bad(d.at, "FF FF 00 in the data of scan %d", d.c.Scans)
		}
	}
	d.pos = r.pos
	if r.marker != 0 {
		d.pos -= 2
	}
	return nil
}

// load loads a byte; at a marker a zero instead.
func (r *repairer) load() {
	var b byte
	if r.marker == 0 {
		b = r.byte()
	}
	r.acc, r.n = r.acc<<8|uint64(b), r.n+8
}

// byte returns the next byte of the data, 0 where a marker comes instead.
func (r *repairer) byte() byte {
	src := r.d.src
	at := r.pos
	if at == len(src) {
		r.ended = true
		return 0
	}
	if r.pos++; src[at] != 0xFF {
		return src[at]
	}
	for r.pos < len(src) && src[r.pos] == 0xFF {
		r.pos++
	}
	if r.pos == len(src) {
		r.ended = true
		return 0
	}
	m := src[r.pos]
	r.pos++
	if m == 0 {
		r.mixed = r.mixed || r.pos-at > 2
		return 0xFF
	}
	r.marker = m
	return 0
}

// take returns the next n bits, at most 16.
func (r *repairer) take(n uint) uint32 {
	for r.n < n {
		r.load()
		// Bits of a byte that is not there are zero.
		r.short = r.short || r.marker != 0
	}
	r.n -= n
	return uint32(r.acc>>r.n) & (1<<n - 1)
}

// symbol decodes one symbol.
func (r *repairer) symbol(t *huffTable) uint32 {
	code := uint32(0)
	for l := uint(1); l <= 16; l++ {
		code = code<<1 | r.take(1)
		if code<<(16-l) < t.limit[l] {
			return uint32(t.spec.values[uint8(int32(code)+t.offset[l])])
		}
	}
	r.take(1) // libjpeg has looked at one more
	return 0
}

// value returns a value of size bits.
func (r *repairer) value(size uint) int32 {
	if size == 0 {
		return 0
	}
	return kernel.Extend(r.take(size), size)
}

// nextMarker goes to the next marker, past anything else.
func (r *repairer) nextMarker() {
	for r.marker = 0; r.marker == 0 && !r.ended; {
		r.byte()
	}
}

// restart goes past the restart marker that is to come now. Where another one comes
// it guesses, as jpeg_resync_to_restart does, whether some were lost or are too many.
func (r *repairer) restart() {
	r.n = 0
	r.d.eobrun = 0
	for _, s := range r.d.comps {
		s.pred = 0
	}
	if r.marker == 0 {
		r.nextMarker()
	}
	want := r.next
	r.next = (want + 1) & 7
	for !r.ended {
		ahead := int(r.marker-mRST0-byte(want)) & 7
		switch {
		case r.marker < mSOF0, isRST(r.marker) && ahead >= 6:
			r.nextMarker() // invalid, or one that is over
		case !isRST(r.marker), ahead == 1, ahead == 2:
			return // the data of this interval is missing
		default:
			r.marker, r.short = 0, false
			return
		}
	}
}

// mcu decodes the MCU at a place. It returns false where libjpeg gives up.
func (r *repairer) mcu(row, col int) bool {
	d := r.d
	for _, s := range d.comps {
		for v := range s.v {
			for h := range s.h {
				at := (row*s.v+v)*s.Stride + col*s.h + h
				b := &s.Blocks[at]
				switch {
				case d.c.Coding != CodingProgressive:
					if !r.sequential(s, b) {
						return false
					}
				case d.ss > 0 && d.ah > 0:
					r.acRefine(s, b)
				case d.ss > 0:
					r.acFirst(s, b)
				case d.ah > 0:
					b[0] |= int16(r.take(1) << d.al)
				default:
					if !r.dc(s) {
						return false
					}
					b[0] = int16(s.pred << d.al)
				}
				s.Nonzero[at] = b.nonzero()
			}
		}
	}
	return true
}

// nonzero has a bit set for each AC coefficient that is not zero.
func (b *Block) nonzero() (mask uint64) {
	for k := 1; k < 64; k++ {
		if b[k] != 0 {
			mask |= 1 << k
		}
	}
	return mask
}

// dc decodes a DC difference and adds it to the prediction.
func (r *repairer) dc(s *scanComponent) bool {
	sum := int64(s.pred) + int64(r.value(uint(r.symbol(s.dc))))
	s.pred = int32(sum)
	return sum == int64(s.pred)
}

func (r *repairer) sequential(s *scanComponent, b *Block) bool {
	if !r.dc(s) {
		return false
	}
	b[0] = int16(s.pred)
	for k := 1; k < 64; k++ {
		symbol := r.symbol(s.ac)
		run, size := int(symbol>>4), uint(symbol&15)
		if size == 0 {
			if run != 15 {
				break
			}
			k += 15
			continue
		}
		k += run
		// What goes beyond the block goes to its end.
		b[min(k, 63)] = int16(r.value(size))
	}
	return true
}

func (r *repairer) acFirst(s *scanComponent, b *Block) {
	d := r.d
	if d.eobrun > 0 {
		d.eobrun--
		return
	}
	for k := d.ss; k <= d.se; k++ {
		symbol := r.symbol(s.ac)
		run, size := int(symbol>>4), uint(symbol&15)
		if size == 0 {
			if run != 15 {
				d.eobrun = 1<<run + int(r.take(uint(run))) - 1
				return
			}
			k += 15
			continue
		}
		k += run
		b[min(k, 63)] = int16(r.value(size) << d.al)
	}
}

func (r *repairer) acRefine(s *scanComponent, b *Block) {
	d := r.d
	k := d.ss
	if d.eobrun == 0 {
		for ; k <= d.se; k++ {
			symbol := r.symbol(s.ac)
			run, size := int(symbol>>4), symbol&15
			value := int16(0)
			if size != 0 {
				value = int16(-1) << d.al
				if r.take(1) == 1 {
					value = 1 << d.al
				}
			} else if run != 15 {
				d.eobrun = 1<<run + int(r.take(uint(run)))
				break
			}
			for ; k <= d.se; k++ {
				if b[k] != 0 {
					r.correct(&b[k])
				} else if run--; run < 0 {
					break
				}
			}
			if value != 0 {
				b[min(k, 63)] = value
			}
		}
	}
	if d.eobrun > 0 {
		for ; k <= d.se; k++ {
			if b[k] != 0 {
				r.correct(&b[k])
			}
		}
		d.eobrun--
	}
}

// correct reads the correction bit of a coefficient.
func (r *repairer) correct(c *int16) {
	bit := int16(1) << r.d.al
	if r.take(1) == 0 || *c&bit != 0 {
		return
	}
	if *c >= 0 {
		*c += bit
	} else {
		*c -= bit
	}
}
