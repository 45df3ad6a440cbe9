package steps

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/turbo"
)

// Library returns nil where libturbojpeg may decode pixels, and otherwise why it
// may not: two machines of one job must see the same pixels, so it has to agree
// with our own decoder on a few pictures.
var Library = sync.OnceValue(func() error {
	if err := turbo.Available(); err != nil {
		return err
	}
	return agree(10)
})

// previews returns nil where the library also agrees on files whose last scans are
// missing. libjpeg-turbo from 3.0.1 on smooths them in another way.
var previews = sync.OnceValue(func() error {
	if err := Library(); err != nil {
		return err
	}
	return agree(1, 2, 5)
})

// agree decodes trial pictures of so many scans with both decoders.
func agree(scans ...int) error {
	for name, src := range trials(scans...) {
		m, err := jpeg.DecodePixels(src, 1, jpeg.Limits{})
		if err != nil {
			return transcode.Errorf(transcode.ErrInternal, "trial picture %s: %v", name, err)
		}
		theirs, err := turbo.Decode(src, m.Width, m.Height, m.Channels)
		if err != nil || !bytes.Equal(theirs, m.Pix) {
			return transcode.Errorf(transcode.ErrUnsupported, "libturbojpeg gives other pixels for the %s trial picture than libjpeg-turbo 2.1 does", name)
		}
	}
	return nil
}

// trials are small pictures of noise that between them take every path through a
// decoder that versions of libjpeg might differ in: progressive files of the given
// numbers of scans, and a sequential one with all of them.
func trials(levels ...int) map[string][]byte {
	pictures := map[string][]byte{}
	rng := rand.New(rand.NewPCG(2, 1))
	for _, sampling := range [][2]int{{1, 1}, {2, 1}, {1, 2}, {2, 2}} {
		c := noise(rng, 45, 37, sampling[0], sampling[1])
		scans, err := c.EncodeProgressive(0)
		if err != nil {
			continue
		}
		name := fmt.Sprintf("%d×%d", sampling[0], sampling[1])
		for _, k := range levels {
			if k == len(scans.Ends) {
				if pictures["baseline "+name], err = jpeg.Sequential(scans.Data, jpeg.Limits{}); err != nil {
					delete(pictures, "baseline "+name)
				}
			}
			pictures[fmt.Sprintf("scan%d %s", k, name)] = append(bytes.Clone(scans.Data[:scans.Ends[k-1]]), jpeg.EOI[:]...)
		}
	}
	return pictures
}

// noise returns coefficients that get smaller towards high frequencies.
func noise(rng *rand.Rand, width, height, h, v int) *jpeg.Coefficients {
	c := &jpeg.Coefficients{Width: width, Height: height, Model: jpeg.ModelYCbCr}
	for i := range 3 {
		p := jpeg.Component{ComponentInfo: jpeg.ComponentInfo{ID: byte(i + 1), H: 1, V: 1}}
		if i == 0 {
			p.H, p.V = h, v
		}
		for k := range p.Quant {
			p.Quant[k] = uint16(4 + k/2)
		}
		across, down := (width+8*h-1)/(8*h), (height+8*v-1)/(8*v)
		p.Wide, p.High = (width*p.H+8*h-1)/(8*h), (height*p.V+8*v-1)/(8*v)
		p.Stride, p.Rows = across*p.H, down*p.V
		p.Blocks = make([]jpeg.Block, p.Stride*p.Rows)
		p.Nonzero = make([]uint64, len(p.Blocks))
		for at := range p.Blocks {
			b := &p.Blocks[at]
			b[0] = int16(rng.IntN(400) - 200)
			for k := 1; k < 64; k++ {
				if v := int16(rng.NormFloat64() * 30 / float64(k)); v != 0 {
					b[k] = v
					p.Nonzero[at] |= 1 << k
				}
			}
		}
		c.Components = append(c.Components, p)
	}
	return c
}
