package transcode

// Look is what the pixels of a picture tell about its kind.
type Look uint8

// The looks.
const (
	// LookBlank tells nothing: one colour, or hardly any pixels.
	LookBlank Look = iota
	// LookLabels has few colours and hard edges, as masks have: nearly all neighbours are
	// equal, and where two regions meet nothing lies between their colours. Screenshots,
	// pixel art and flat drawings look the same.
	LookLabels
	// LookPhoto is everything else: photographs, renderings, what is drawn with soft edges.
	LookPhoto
)

// The bounds of LookLabels. The measures, the number of colours and how pixels differ from
// their neighbours, are those of Athitsos, Swain and Frankel, Distinguishing Photographs
// and Graphics on the World Wide Web, CBAIVL 1997.
const (
	leastPixels     = 64     // fewer tell nothing
	pixelsPerColour = 32     // at least
	mostColours     = 4096   // also where there are many pixels
	mostUnequal     = 1. / 5 // of all pairs of neighbours
	// mostAlone of the pixels at an edge are like none of their eight neighbours. Where
	// edges are soft, the pixels in between are.
	mostAlone = 1. / 10
	// Where there are more colours than fewColours, no more than mostSoft of the unequal
	// pairs differ by at most softStep in all channels: those are the steps of a gradient.
	fewColours = 16
	softStep   = 3
	mostSoft   = 3. / 4
	// What is surely a picture has so many colours, more than this share of unequal pairs, and
	// more pixels alone than mostAlone. Most of the unequal pairs differ by at most smoothStep.
	// Chosen on photographs made grey, id maps, mattes and noise.
	sureColours = 100
	sureUnequal = 1. / 3
	sureSmooth  = 1. / 2
	smoothStep  = 16
	// enoughPixels are looked at; of larger pictures some rows.
	enoughPixels = 1 << 20
)

// MayBeLabels reports whether a sample that is taken for a picture may have the look of
// LookLabels: formats with losses hold none, and files of other modes are left alone.
func (i Info) MayBeLabels() bool {
	return (i.Mode == ModeRGB || i.Mode == ModeRGBA) && i.Format != JPEG && !i.Lossy
}

// LookOf tells what a picture of mode RGB or RGBA, 8 bits a channel, looks like. Any
// other one is LookBlank.
func LookOf(px *Pixels) Look {
	if px.Mode != ModeRGB && px.Mode != ModeRGBA || px.Type != Uint8 || px.Planar ||
		px.Width*px.Height < leastPixels || len(px.Pix) != px.Len() {
		return LookBlank
	}
	limit := max(2, min(mostColours, sampledRows(px)*px.Width/pixelsPerColour))
	m := measure(px, limit)
	switch {
	case m.colours > limit:
		return LookPhoto
	case m.colours == 1:
		return LookBlank
	case float64(m.unequal) > mostUnequal*float64(m.pairs), float64(m.alone) > mostAlone*float64(m.edge),
		m.colours > fewColours && float64(m.soft) > mostSoft*float64(m.unequal):
		return LookPhoto
	}
	return LookLabels
}

// SurelyPicture reports whether pixels of mode RGB, 8 bits a channel, which were made of grey or
// of a palette, cannot be labels: they have hundreds of colours, most neighbours differ, and
// they differ little. Most pixels of a label lie beside equal ones.
func SurelyPicture(px *Pixels) bool {
	m := measure(px, mostColours)
	return m.colours >= sureColours && float64(m.unequal) > sureUnequal*float64(m.pairs) &&
		float64(m.alone) > mostAlone*float64(m.edge) && float64(m.smooth) > sureSmooth*float64(m.unequal)
}

// measures are what tells pictures from labels.
type measures struct {
	colours int // one more than the limit where there are more
	// pairs of neighbours, those that differ, and those that differ by at most softStep and
	// smoothStep in all channels
	pairs, unequal, soft, smooth int
	edge, alone                  int // pixels that have other neighbours, and no equal ones
}

// sampledRows is how many rows of a picture are looked at.
func sampledRows(px *Pixels) int {
	step := 1 + px.Width*px.Height/enoughPixels
	return (px.Height + step - 1) / step
}

// measure looks at a picture of mode RGB or RGBA, until it has seen more colours than limit.
func measure(px *Pixels, limit int) (m measures) {
	step := 1 + px.Width*px.Height/enoughPixels
	colours := map[uint32]struct{}{}
	r := rowsOf(px)
	for y := 0; y < px.Height; y += step {
		last, first := uint32(0), true
		for x := range px.Width {
			c := r.at(x, y)
			if first || c != last {
				colours[c] = struct{}{}
				if m.colours = len(colours); m.colours > limit {
					return m
				}
			}
			last, first = c, false
			atEdge := false
			for _, d := range [...][2]int{{1, 0}, {0, 1}, {-1, 0}, {0, -1}} {
				other, ok := r.near(x+d[0], y+d[1])
				if !ok {
					continue
				}
				atEdge = atEdge || other != c
				if d[0]+d[1] < 0 {
					continue // a pair counts once
				}
				if m.pairs++; other != c {
					m.unequal++
					if similar(c, other, softStep) {
						m.soft++
					}
					if similar(c, other, smoothStep) {
						m.smooth++
					}
				}
			}
			if atEdge {
				if m.edge++; r.alone(x, y, c) {
					m.alone++
				}
			}
		}
	}
	return m
}

// colourRows reads pixels as numbers.
type colourRows struct {
	pix                     []byte
	width, height, channels int
}

func rowsOf(px *Pixels) colourRows {
	return colourRows{px.Pix, px.Width, px.Height, px.Mode.Channels()}
}

func (r colourRows) at(x, y int) uint32 {
	p := r.pix[(y*r.width+x)*r.channels:][:r.channels]
	c := uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16
	if r.channels == 4 {
		c |= uint32(p[3]) << 24
	}
	return c
}

// near is at; ok is false outside of the picture.
func (r colourRows) near(x, y int) (c uint32, ok bool) {
	if x < 0 || y < 0 || x >= r.width || y >= r.height {
		return 0, false
	}
	return r.at(x, y), true
}

// alone reports whether none of the eight neighbours has the colour c.
func (r colourRows) alone(x, y int, c uint32) bool {
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			if dx == 0 && dy == 0 {
				continue
			}
			if other, ok := r.near(x+dx, y+dy); ok && other == c {
				return false
			}
		}
	}
	return true
}

// similar reports whether two colours differ by at most step in all channels.
func similar(a, b uint32, step int) bool {
	for range 4 {
		d := int(a&255) - int(b&255)
		if d > step || d < -step {
			return false
		}
		a, b = a>>8, b>>8
	}
	return true
}
