package enhance

import "math"

// warpNearest is warp that takes pixels whole, as Pillow's transform with AFFINE and NEAREST: with
// 16 bits behind the point.
func (p Picture) warpNearest(m [6]float64) {
	size := p.Channels * p.Bytes
	src := append([]byte(nil), p.Pix...)
	clear(p.Pix)
	fix := func(v float64) int { return int(math.Floor(float64(v*65536) + .5)) }
	stepX, stepY := fix(m[0]), fix(m[3])
	beginX, beginY := fix(m[2]+float64(m[0]*.5)+float64(m[1]*.5)), fix(m[5]+float64(m[3]*.5)+float64(m[4]*.5))
	for y := range p.Height {
		atX, atY := beginX+y*fix(m[1]), beginY+y*fix(m[4])
		for x := range p.Width {
			if fromX, fromY := atX>>16, atY>>16; fromX >= 0 && fromX < p.Width && fromY >= 0 && fromY < p.Height {
				copy(p.Pix[(y*p.Width+x)*size:][:size], src[(fromY*p.Width+fromX)*size:])
			}
			atX, atY = atX+stepX, atY+stepY
		}
	}
}
