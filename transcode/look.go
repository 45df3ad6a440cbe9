package transcode

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

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
	// LookPicture is a LookPhoto that surely holds no labels: it has hundreds of colours, most
	// neighbours differ, and they differ little. What has more than 256 colours does not get
	// it: nobody takes that for a palette or grey.
	LookPicture
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
	// A LookPicture has so many colours, more than sureUnequal of the pairs, more than mostAlone
	// of the pixels, and of the unequal pairs more than sureSmooth differ by at most
	// smoothStep. Chosen on photographs made grey, id maps, mattes and noise.
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

// LookOfArray is LookOf of a file in the view npy or rgb-npy, which ends in the pixels.
func LookOfArray(i Info, mode Mode, file []byte) Look {
	px := &Pixels{Width: i.Width, Height: i.Height, Mode: mode}
	px.Pix = file[len(file)-px.Len():]
	return LookOf(px)
}

// LookOf tells what a picture of mode RGB or RGBA, 8 bits a channel, looks like. Any
// other one is LookBlank.
func LookOf(px *Pixels) Look {
	if px.Mode != ModeRGB && px.Mode != ModeRGBA || px.Type != Uint8 || px.Planar ||
		px.Width*px.Height < leastPixels || len(px.Pix) != px.Len() {
		return LookBlank
	}
	step := 1 + px.Width*px.Height/enoughPixels
	rows := (px.Height + step - 1) / step
	limit := max(2, min(mostColours, rows*px.Width/pixelsPerColour))
	colours := map[uint32]struct{}{}
	var pairs, unequal, soft, smooth, edge, alone int
	r := rowsOf(px)
	for y := 0; y < px.Height; y += step {
		last, first := uint32(0), true
		for x := range px.Width {
			c := r.at(x, y)
			if first || c != last {
				if colours[c] = struct{}{}; len(colours) > max(limit, 256) {
					return LookPhoto
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
				if pairs++; other != c {
					unequal++
					if similar(c, other, softStep) {
						soft++
					}
					if similar(c, other, smoothStep) {
						smooth++
					}
				}
			}
			if atEdge {
				if edge++; r.alone(x, y, c) {
					alone++
				}
			}
		}
	}
	switch {
	case len(colours) == 1:
		return LookBlank
	case len(colours) >= sureColours && float64(unequal) > sureUnequal*float64(pairs) &&
		float64(alone) > mostAlone*float64(edge) && float64(smooth) > sureSmooth*float64(unequal):
		return LookPicture
	case len(colours) > limit, float64(unequal) > mostUnequal*float64(pairs), float64(alone) > mostAlone*float64(edge),
		len(colours) > fewColours && float64(soft) > mostSoft*float64(unequal):
		return LookPhoto
	}
	return LookLabels
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

// Roles says which samples are pictures and which are masks, by glob patterns. As in
// .gitignore, a pattern without a slash matches the name of a sample in any directory;
// one with a slash matches its whole path in the dataset, where `**` crosses
// directories and a slash in front changes nothing else. Pairs say so, too, and which
// mask is that of which picture. The zero value leaves every sample to its mode.
type Roles struct {
	Images, Masks []string
	Pairs         []Pair
}

// Given reports whether there is any pattern.
func (r Roles) Given() bool { return len(r.Images)+len(r.Masks)+len(r.Pairs) > 0 }

// Check returns an error that names the first malformed pattern.
func (r Roles) Check() error {
	for _, pattern := range r.all() {
		if !doublestar.ValidatePattern(pattern) {
			return fmt.Errorf("glob pattern %q is malformed", pattern)
		}
	}
	return nil
}

// Of returns the role of the sample at path. A sample that both lists name is a
// mask, the choice that harms nothing.
func (r Roles) Of(path string) Role {
	switch {
	case slices.ContainsFunc(r.Masks, matches(path)), len(r.PicturesOf(path)) > 0:
		return Mask
	case slices.ContainsFunc(r.Images, matches(path)), r.MaskOf(path) != "":
		return Image
	}
	return Auto
}

// Unmatched returns the patterns that match none of the samples. It asks for no more
// samples once each pattern has matched one.
func (r Roles) Unmatched(samples iter.Seq[string]) []string {
	left := r.all()
	if len(left) == 0 {
		return nil
	}
	for sample := range samples {
		if left = slices.DeleteFunc(left, matches(sample)); len(left) == 0 {
			break
		}
	}
	return left
}

func (r Roles) all() []string { return slices.Concat(r.Images, r.Masks) }

// matches is the function that tells whether a pattern matches a path.
func matches(name string) func(pattern string) bool {
	return func(pattern string) bool {
		if strings.Contains(pattern, "/") {
			ok, _ := doublestar.Match(strings.TrimPrefix(pattern, "/"), name)
			return ok
		}
		ok, _ := doublestar.Match(pattern, path.Base(name))
		return ok
	}
}
