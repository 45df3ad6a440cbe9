package jpeg

import (
	"image"
	"math"
)

// startPixels decides, at the first scan, how pixels are made. Where it is the
// only one, blocks become samples as they are decoded; otherwise coefficients have
// to be kept.
func (d *decoder) startPixels() error {
	if err := d.render.start(d.c); err != nil {
		return err
	}
	d.render.direct = d.c.Coding != CodingProgressive && len(d.comps) == len(d.c.Components)
	if !d.render.direct {
		d.c.alloc(d.c.Coding == CodingProgressive)
	}
	return nil
}

// needed returns the first MCU of the scan at hand that the wanted pixels come from, and
// the one after the last. wide is the number of MCUs in a row.
func (r *renderer) needed(d *decoder, wide int) (from, to int) {
	from = math.MaxInt
	for _, s := range d.comps {
		plane := &r.planes[s.index]
		blocks := plane.blocks
		if d.c.Coding == CodingProgressive {
			if d.ss == 0 {
				// Smoothing looks at the DC coefficients of two blocks in each direction.
				blocks = blocks.Inset(-2)
			}
			// How a component is smoothed depends on how far a damaged scan of another
			// one goes.
			blocks.Max.Y = max(blocks.Max.Y, (r.last+1)*plane.v)
			blocks = blocks.Intersect(image.Rect(0, 0, s.Wide, s.High))
		}
		from = min(from, blocks.Min.Y/s.v*wide)
		to = max(to, (blocks.Max.Y-1)/s.v*wide+(blocks.Max.X-1)/s.h+1)
	}
	return from, to
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
				from, to := plane.blocks.Min.X, plane.blocks.Max.X
				if y < plane.blocks.Min.Y || y >= plane.blocks.Max.Y {
					to = from
				}
				for x := col * s.h; x < (col+1)*s.h; x++ {
					var nonzero uint64
					var diff int32
					var ok bool
					wanted := from <= x && x < to
					if wanted {
						nonzero, diff, ok = d.r.block(&b, s.dc, s.ac)
					} else {
						diff, ok = d.r.skip(&b, s.dc, s.ac)
					}
					s.pred += diff
					if !ok || d.r.over(end) || s.pred != int32(int16(s.pred)) {
						return false
					}
					if wanted {
						b[0] = int16(s.pred)
						plane.put(x, y, &b, nonzero, &s.Quant)
					}
				}
			}
		}
		col++
	}
	if col == wide || row*wide+col == d.upTo {
		d.render.finish(row)
	}
	return true
}
