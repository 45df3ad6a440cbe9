package jpeg

import (
	"errors"
	"image"
	"math"
	"sync"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg/internal/kernel"
)

// Image is a picture as pixels.
type Image struct {
	Width, Height int
	// Channels is 3 for RGB and 4 for CMYK, whose values are those of the file:
	// inverted, in all files that Adobe's programs write.
	Channels int
	// Pix has the pixels row by row, without gaps.
	Pix []byte
}

// ScaledSize returns the size of a picture at 1/scale of its width and height.
func ScaledSize(width, height, scale int) (w, h int) {
	return ceilDiv(width, scale), ceilDiv(height, scale)
}

// DecodePixels decodes a whole file to RGB, or CMYK where it has four components,
// at 1/scale of its size: 1, 2, 4 or 8. What it takes and what it refuses is what
// Decode does; in addition it refuses pictures of an unknown colour model, and of
// sampling factors that are no multiples of each other. Entropy-coded data that is
// damaged it decodes as libjpeg does, which warns and goes on; data that ends with
// the file is ErrTruncated.
//
// The pixels are those of libjpeg-turbo 2.1 with its default options, bit for
// bit. That includes the smoothing of progressive files whose last scans are
// missing, which other versions do in other ways.
func DecodePixels(src []byte, scale int, lim Limits) (*Image, error) {
	return decodePixels(src, wanted{scale: scale}, lim)
}

// DecodeRegion decodes the pixels of r, which has to lie within the picture and must not
// be empty: those that DecodePixels gives at full size. Entropy-coded data is decoded as
// far as these pixels need it. The rest is walked through up to the end of the file, so
// that what DecodePixels refuses is refused here, too. There is one exception: a DC
// coefficient out of range is not noticed where no pixel of r needs it decoded.
func DecodeRegion(src []byte, r image.Rectangle, lim Limits) (*Image, error) {
	return decodePixels(src, wanted{scale: 1, region: r}, lim)
}

// decodePixels decodes a file with working memory that others have used.
func decodePixels(src []byte, what wanted, lim Limits) (*Image, error) {
	w := pixelWorkspaces.Get().(*pixelWorkspace)
	w.render.wanted = what
	m, err := w.decode(src, lim)
	w.render.wanted = wanted{}
	if w.size() <= maxKept {
		pixelWorkspaces.Put(w)
	}
	return m, err
}

// Vectorised says whether there is assembly for this processor.
var Vectorised = kernel.Vectorised()

// pixelWorkspace is what DecodePixels needs besides its result.
type pixelWorkspace struct {
	dec    decoder
	c      Coefficients
	render renderer
}

var pixelWorkspaces = sync.Pool{New: func() any { return new(pixelWorkspace) }}

func (w *pixelWorkspace) size() int {
	n := cap(w.dec.bits)
	for i := range w.c.Components {
		n += 136 * cap(w.c.Components[i].Blocks)
	}
	for i := range w.render.planes {
		n += cap(w.render.planes[i].samples)
	}
	return n
}

func (w *pixelWorkspace) decode(src []byte, lim Limits) (*Image, error) {
	defer func() { w.c.Segments, w.render.image = nil, nil }()
	w.render.image = nil
	w.dec.render = &w.render
	err := w.dec.decode(src, lim, &w.c)
	if errors.Is(err, transcode.ErrBad) || errors.Is(err, transcode.ErrTruncated) {
		w.render.image = nil
		w.dec.render, w.dec.repair = &w.render, true
		if w.dec.decode(src, lim, &w.c) == nil {
			err = w.render.start(&w.c)
		}
	}
	if err != nil {
		return nil, err
	}
	if !w.render.direct {
		w.render.all(&w.c)
	}
	return w.render.image, nil
}

// wanted says which pixels to make.
type wanted struct {
	scale  int
	region image.Rectangle // of the scaled picture, empty for all
	// into is where they go, RGB or BGR without gaps between pixels, nil for memory of their
	// own. After an error some pixels may have been written.
	into *transcode.Target
}

// renderer makes pixels of blocks, which come row by row of MCUs.
type renderer struct {
	wanted
	image *Image // nil before start
	// direct: pixels are made while blocks are decoded, not of coefficients.
	direct bool
	model  ColorModel
	planes [maxComponents]plane
	n      int             // components
	pixels image.Rectangle // region, or all
	first  int             // the first row of MCUs that is needed
	last   int             // the last one
	each   int             // pixel rows that one makes
	done   int             // the next pixel row
	// late says that the last pixel row of an MCU waits for the next MCU.
	late   bool
	smooth smoother
}

// start allocates the pixels, of c or of a region of it.
func (r *renderer) start(c *Coefficients) error {
	if r.scale != 1 && r.scale != 2 && r.scale != 4 && r.scale != 8 {
		return unsupported(0, "scale 1/%d", r.scale)
	}
	channels, components := 3, 3
	switch c.Model {
	case ModelUnknown:
		components = 0
	case ModelGrey:
		components = 1
	case ModelCMYK, ModelYCCK:
		channels, components = 4, 4
	}
	if len(c.Components) != components {
		return unsupported(0, "pixels of %d components, colour model %v", len(c.Components), c.Model)
	}
	w, h := ScaledSize(c.Width, c.Height, r.scale)
	r.pixels = image.Rect(0, 0, w, h)
	if !r.region.Empty() {
		if !r.region.In(r.pixels) {
			return unsupported(0, "pixels %v of %d×%d", r.region, w, h)
		}
		r.pixels = r.region
	}
	size := 8 / r.scale
	maxH, maxV := c.maxFactors()
	if len(c.Components) == 1 {
		maxH, maxV = 1, 1
	}
	r.late, r.direct = false, false
	_, high := c.mcus()
	r.first, r.last = high, 0
	for i := range c.Components {
		h, v := c.Components[i].H, c.Components[i].V
		if len(c.Components) == 1 {
			// Its MCUs are single blocks, whatever the sampling factors.
			h, v = 1, 1
		}
		if !r.planes[i].start(h, v, maxH, maxV, size, c.Width, c.Height) {
			return unsupported(0, "sampling factors %d×%d of %d×%d", h, v, maxH, maxV)
		}
		r.planes[i].limit(r.pixels)
		r.late = r.late || r.planes[i].vertical()
		r.first = min(r.first, r.planes[i].blocks.Min.Y/v)
		r.last = max(r.last, (r.planes[i].blocks.Max.Y-1)/v)
	}
	r.model, r.n = c.Model, len(c.Components)
	r.each, r.done = size*maxV, r.pixels.Min.Y
	w, h = r.pixels.Dx(), r.pixels.Dy()
	if r.into == nil {
		r.image = &Image{w, h, channels, transcode.Lend(w * h * channels)}
		return nil
	}
	if err := r.into.Check(w, h, channels, 1); err != nil {
		return internal("%v", err)
	}
	r.image = &Image{w, h, channels, nil}
	return nil
}

// all makes the pixels of coefficients.
func (r *renderer) all(c *Coefficients) {
	defer func() { r.smooth = smoother{} }()
	smoothing := c.smoothing()
	_, mcus := c.mcus()
	for row := r.first; row <= r.last; row++ {
		for i := range c.Components {
			p, plane := &c.Components[i], &r.planes[i]
			from, to := plane.blocks.Min, plane.blocks.Max
			for y := max(row*plane.v, from.Y); y < min((row+1)*plane.v, to.Y); y++ {
				missing := &p.missing
				if c.doubtful > 0 && y/p.V >= c.doubtful {
					missing = &p.before
				}
				if smoothing && *missing != [smoothed]int8{} {
					r.smooth.start(p, missing, y, mcus)
					for x := range to.X {
						if b, nonzero := r.smooth.next(x); x >= from.X {
							plane.put(x, y, b, nonzero, &p.Quant)
						}
					}
					continue
				}
				masks := p.Nonzero[y*p.Stride:]
				blocks := p.Blocks[y*p.Stride:]
				for x := from.X; x < to.X; x++ {
					plane.put(x, y, &blocks[x], masks[x], &p.Quant)
				}
			}
		}
		r.finish(row)
	}
}

// finish makes the pixels that are possible once all blocks of a row of MCUs
// have been put.
func (r *renderer) finish(row int) {
	ready := (row + 1) * r.each
	if r.late {
		ready--
	}
	if row >= r.last {
		ready = r.pixels.Max.Y
	}
	for ready = min(ready, r.pixels.Max.Y); r.done < ready; r.done++ {
		r.convert(r.done)
	}
}

// convert makes row y of the pixels.
func (r *renderer) convert(y int) {
	m := r.image
	var rows [maxComponents][]byte
	for i := range r.n {
		rows[i] = r.planes[i].row(y)[:m.Width]
	}
	var out []byte
	if y -= r.pixels.Min.Y; r.into != nil {
		first := 0 // channel in memory
		if r.into.Channel < 0 {
			first = 2
		}
		out = r.into.Pix[r.into.At(0, y, first):][:3*m.Width]
		if first > 0 {
			defer transcode.SwapRedBlue(out, out)
		}
	} else {
		out = m.Pix[y*m.Width*m.Channels:][:m.Width*m.Channels]
	}
	switch r.model {
	case ModelGrey:
		kernel.GreyToRGB(out, rows[0])
	case ModelYCbCr:
		kernel.YCCToRGB(out, rows[0], rows[1], rows[2])
	case ModelRGB:
		kernel.Interleave3(out, rows[0], rows[1], rows[2])
	case ModelYCCK:
		kernel.YCCKToCMYK(out, rows[0], rows[1], rows[2], rows[3])
	case ModelCMYK:
		kernel.Interleave4(out, rows[0], rows[1], rows[2], rows[3])
	}
}

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
