package l3gpu

import (
	"slices"

	"github.com/pipefs/pipefs/transcode/l3"
)

// dimension is rows, pixels or channels: how many there are, and how many bytes apart.
type dimension struct{ stride, extent int }

// place is a picture in device memory: in the order of its target but without its gaps. So one
// copy brings it to the host, and few copies there put it into the target.
type place struct {
	target l3.Target    // without Pix; offsets from the picture's first byte
	size   int          // bytes of the picture
	run    int          // bytes that lie together in both
	outer  [3]dimension // of the target in memory, widest first, over the runs
	base   int          // where in the target's memory the picture begins
}

// placeFor arranges a picture of a target that was checked.
func placeFor(t l3.Target, width, height, channels, sample int) place {
	p := place{size: sample, run: sample, base: t.Base}
	var packed [3]int // strides of channel, pixel, row
	dims := [3]dimension{{t.Channel, channels}, {t.Pixel, width}, {t.Row, height}}
	narrowFirst := []int{0, 1, 2}
	slices.SortStableFunc(narrowFirst, func(a, b int) int { return magnitude(dims[a].stride) - magnitude(dims[b].stride) })
	for i := range p.outer {
		p.outer[i].extent = 1
	}
	whole := true // what came so far has no gaps in the target
	for i, which := range narrowFirst {
		d := dims[which]
		packed[which] = p.size
		if d.stride < 0 {
			packed[which] = -p.size
			p.target.Base += p.size * (d.extent - 1)
			p.base += d.stride * (d.extent - 1)
		}
		if d.extent == 1 {
			continue
		}
		if whole = whole && magnitude(d.stride) == p.size; whole {
			p.run *= d.extent
		} else {
			p.outer[2-i] = dimension{magnitude(d.stride), d.extent}
		}
		p.size *= d.extent
	}
	p.target.Channel, p.target.Pixel, p.target.Row = packed[0], packed[1], packed[2]
	return p
}

// copyTo copies the picture to its target.
func (p *place) copyTo(pix, picture []byte) {
	for a := range p.outer[0].extent {
		for b := range p.outer[1].extent {
			at := p.base + a*p.outer[0].stride + b*p.outer[1].stride
			for range p.outer[2].extent {
				copy(pix[at:at+p.run], picture)
				picture = picture[p.run:]
				at += p.outer[2].stride
			}
		}
	}
}

func magnitude(n int) int { return max(n, -n) }
