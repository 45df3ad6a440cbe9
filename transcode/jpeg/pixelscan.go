package jpeg

// startPixels decides, at the first scan, how pixels are made. Where it is the
// only one, blocks become samples as they are decoded; otherwise coefficients have
// to be kept.
func (d *decoder) startPixels() error {
	if d.c.Coding != CodingProgressive && len(d.comps) == len(d.c.Components) {
		return d.render.start(d.c)
	}
	d.c.alloc(d.c.Coding == CodingProgressive)
	return nil
}

// pixelMCU decodes n MCUs of the only scan of a sequential file: T.81 F.2. No
// coefficients are kept.
func (d *decoder) pixelMCU(first, n, end int) bool {
	var b Block
	wide, _ := d.mcuCount()
	row, col := first/wide, first%wide
	for ; n > 0; n-- {
		for _, s := range d.comps {
			plane := &d.render.planes[s.index]
			for v := range s.v {
				y := row*s.v + v
				for h := range s.h {
					nonzero, diff, ok := d.r.block(&b, s.dc, s.ac)
					if !ok || d.r.over(end) {
						return false
					}
					s.pred += diff
					if s.pred != int32(int16(s.pred)) {
						return false
					}
					b[0] = int16(s.pred)
					if x := col*s.h + h; x < s.Wide && y < s.High {
						plane.put(x, y, &b, nonzero, &s.Quant)
					}
				}
			}
		}
		col++
	}
	if col == wide {
		d.render.finish(row)
	}
	return true
}
