package transcode_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/raster"
)

// painted is a picture of which each pixel has the colour that paint says.
func painted(mode transcode.Mode, width, height int, paint func(x, y int) [3]float64) *transcode.Pixels {
	px := &transcode.Pixels{Width: width, Height: height, Mode: mode, Type: transcode.Uint8}
	for y := range height {
		for x := range width {
			c := paint(x, y)
			px.Pix = append(px.Pix, byte(c[0]), byte(c[1]), byte(c[2]))
			if mode == transcode.ModeRGBA {
				px.Pix = append(px.Pix, 255)
			}
		}
	}
	return px
}

// regions divides a picture into n regions, each nearest to a point of its own.
func regions(width, height, n int) func(x, y int) int {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	points := make([][2]float64, n)
	for i := range points {
		points[i] = [2]float64{r.Float64() * float64(width), r.Float64() * float64(height)}
	}
	return func(x, y int) int {
		best, least := 0, math.Inf(1)
		for i, p := range points {
			if d := math.Hypot(p[0]-float64(x), p[1]-float64(y)); d < least {
				best, least = i, d
			}
		}
		return best
	}
}

// coloured paints regions.
func coloured(region func(x, y int) int, colour func(id int) [3]float64) func(x, y int) [3]float64 {
	return func(x, y int) [3]float64 { return colour(region(x, y)) }
}

// asID is the colour of a COCO panoptic id: R + 256 G + 65536 B.
func asID(id int) [3]float64 {
	return [3]float64{float64(id & 255), float64(id >> 8 & 255), float64(id >> 16)}
}

func TestLookOf(t *testing.T) {
	rgb := transcode.ModeRGB
	grey := func(v float64) [3]float64 { return [3]float64{v, v, v} }
	random := func(id int) [3]float64 { return asID(id * 1234577 % (1 << 24)) }
	circle := func(x, y float64) bool { return math.Hypot(x-60, y-50) < 35 }
	for name, c := range map[string]struct {
		px   *transcode.Pixels
		want transcode.Look
	}{
		"panoptic ids":           {painted(rgb, 320, 240, coloured(regions(320, 240, 24), random)), transcode.LookLabels},
		"ids that count up":      {painted(rgb, 320, 240, coloured(regions(320, 240, 24), func(id int) [3]float64 { return asID(id + 1) })), transcode.LookLabels},
		"many ids that count up": {painted(rgb, 320, 240, coloured(regions(320, 240, 300), func(id int) [3]float64 { return asID(id + 1) })), transcode.LookLabels},
		"with alpha":             {painted(transcode.ModeRGBA, 320, 240, coloured(regions(320, 240, 24), random)), transcode.LookLabels},
		"colours of 19 classes":  {painted(rgb, 256, 128, coloured(regions(256, 128, 40), func(id int) [3]float64 { return random(id % 19) })), transcode.LookLabels},
		"classes as grey RGB":    {painted(rgb, 256, 128, coloured(regions(256, 128, 40), func(id int) [3]float64 { return grey(float64(id % 19)) })), transcode.LookLabels},
		"0 and 1":                {painted(rgb, 100, 100, coloured(regions(100, 100, 9), func(id int) [3]float64 { return grey(float64(id & 1)) })), transcode.LookLabels},
		"small":                  {painted(rgb, 32, 32, coloured(regions(32, 32, 8), random)), transcode.LookLabels},
		"edges, one pixel wide": {painted(rgb, 200, 200, func(x, y int) [3]float64 {
			if x == y || x+3*y == 300 || x == 150 {
				return grey(255)
			}
			return grey(0)
		}), transcode.LookLabels},
		"a very large one": {painted(rgb, 2000, 1500, func(x, y int) [3]float64 { return random(x/250 + 8*(y/250)) }), transcode.LookLabels},

		"one colour":           {painted(rgb, 100, 100, func(int, int) [3]float64 { return grey(7) }), transcode.LookBlank},
		"tiny":                 {painted(rgb, 7, 9, func(x, y int) [3]float64 { return grey(float64(x * 30)) }), transcode.LookBlank},
		"one pixel":            {painted(rgb, 1, 1, func(int, int) [3]float64 { return grey(1) }), transcode.LookBlank},
		"a mode that is safe":  {&transcode.Pixels{Width: 32, Height: 32, Mode: transcode.ModeL, Pix: make([]byte, 1024)}, transcode.LookBlank},
		"a gradient":           {painted(rgb, 640, 100, func(x, _ int) [3]float64 { return grey(float64(x) / 640 * 256) }), transcode.LookPhoto},
		"a very wide gradient": {painted(rgb, 3840, 200, func(x, _ int) [3]float64 { return grey(float64(x) / 3840 * 256) }), transcode.LookPhoto},
		"a sky without dither": {painted(rgb, 320, 240, func(x, y int) [3]float64 {
			if y > 120 {
				return [3]float64{40, 120, 30}
			}
			return [3]float64{100 + float64(y), 100 + float64(y), 255}
		}), transcode.LookPhoto},
		"a shaded sphere": {painted(rgb, 320, 240, func(x, y int) [3]float64 {
			d := math.Hypot(float64(x)-160, float64(y)-120) / 80
			if d >= 1 {
				return [3]float64{90, 160, 220}
			}
			return [3]float64{math.Sqrt(1-d*d) * 255, math.Sqrt(1-d*d) * 60, 30}
		}), transcode.LookPhoto},
		"a drawing with soft edges": {painted(rgb, 120, 100, func(x, y int) [3]float64 {
			in := 0
			for i := range 64 {
				if circle(float64(x)+float64(i%8)/8, float64(y)+float64(i/8)/8) {
					in++
				}
			}
			return [3]float64{255 - float64(in)*3, 255 - float64(in), 250}
		}), transcode.LookPhoto},
		"noise": {painted(rgb, 64, 64, func(x, y int) [3]float64 { return grey(float64(x * y * 7 % 251)) }), transcode.LookPhoto},
	} {
		if got := transcode.LookOf(c.px); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// scaled is px in another size.
func scaled(t *testing.T, px *transcode.Pixels, width, height int) *transcode.Pixels {
	t.Helper()
	k := raster.Scaling("exact", "exact1", func(_, _, _ int) (int, int) { return width, height })
	out, err := k.Apply(t.Context(), transcode.Payload{Pixels: px}, transcode.Call{Step: transcode.Step{Kind: k}})
	testenv.Must(t, err)
	return out.Pixels
}

// TestPhotographsAreNoLabels looks at real ones: whole, as thumbnails, in grey, and small
// on black as scans are.
func TestPhotographsAreNoLabels(t *testing.T) {
	for _, path := range testenv.Shared(t, "kodak/*.png") {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		px, err := png.Decoder{}.Decode(t.Context(), src, transcode.Limits{})
		testenv.Must(t, err)
		small := func(side int) *transcode.Pixels {
			return scaled(t, px, side, side)
		}
		grey := func(px *transcode.Pixels) *transcode.Pixels {
			return painted(transcode.ModeRGB, px.Width, px.Height, func(x, y int) [3]float64 {
				v := float64(px.Pix[3*(y*px.Width+x)+1])
				return [3]float64{v, v, v}
			})
		}
		for name, px := range map[string]*transcode.Pixels{
			"whole": px, "grey": grey(px), "256": small(256), "64": small(64), "32": small(32), "grey 32": grey(small(32)),
			"on black": raster.CenterCrop(small(128), 600), "grey on black": raster.CenterCrop(grey(small(128)), 600),
		} {
			if got := transcode.LookOf(px); got < transcode.LookPhoto || name == "grey" && got != transcode.LookPicture {
				t.Errorf("%s, %s: %d", path, name, got)
			}
		}
	}
}

// TestLookPicture wants no values to be blended that may be labels, and most pictures to be known.
func TestLookPicture(t *testing.T) {
	grey := func(v float64) [3]float64 { return [3]float64{v, v, v} }
	r := rand.New(rand.NewPCG(3, 4))
	photo := pictures.Photo(320, 240, 1)
	at := func(x, y int) float64 { return float64(photo.NRGBAAt(x, y).G) }
	ids := regions(200, 150, 250)
	for name, c := range map[string]struct {
		paint func(x, y int) [3]float64
		want  bool
	}{
		"a photograph":                 {func(x, y int) [3]float64 { return grey(at(x, y)) }, true},
		"a palette of a photograph":    {func(x, y int) [3]float64 { v := at(x, y); return [3]float64{v, 255 - v, v / 2} }, true},
		"a photograph of few levels":   {func(x, y int) [3]float64 { return grey(math.Round(at(x, y)/16) * 16) }, false},
		"instances":                    {func(x, y int) [3]float64 { return grey(float64(ids(x, y))) }, false},
		"superpixels":                  {func(x, y int) [3]float64 { return grey(float64((x/9 + y/9*23) % 256)) }, false},
		"superpixels with rough edges": {func(x, y int) [3]float64 { return grey(float64(((x+r.IntN(3))/16 + (y+r.IntN(3))/16*20) % 256)) }, false},
		"a matte": {func(x, y int) [3]float64 {
			return grey(255 / (1 + math.Exp((math.Hypot(float64(x)-160, float64(y)-120)-70)/4)))
		}, false},
		"distances":            {func(x, y int) [3]float64 { return grey(math.Hypot(float64(x)-160, float64(y)-120)) }, false},
		"values without order": {func(int, int) [3]float64 { return grey(float64(r.IntN(256))) }, false},
	} {
		if got := transcode.LookOf(painted(transcode.ModeRGB, 320, 240, c.paint)); (got == transcode.LookPicture) != c.want {
			t.Errorf("%s: %d, and surely a picture is %v", name, got, c.want)
		}
	}
}

// TestRoles says which samples a pattern means.
func TestRoles(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*_mask.png", "a_mask.png", true},
		{"*_mask.png", "train/cats/a_mask.png", true},
		{"*_mask.png", "a_mask.png/a.png", false},
		{"c.png", "deep/er/c.png", true},
		{"**", "deep/er/c.png", true},
		{"{a,b}.png", "x/b.png", true},
		{"labels", "labels/a.png", false},
		{"labels/*.png", "labels/a.png", true},
		{"labels/*.png", "x/labels/a.png", false},
		{"labels/*.png", "labels/x/a.png", false},
		{"labels/**", "labels/x/a.png", true},
		{"**/labels/**", "x/labels/y/a.png", true},
		{"/a.png", "a.png", true},
		{"/a.png", "x/a.png", false},
		{"/labels/**", "labels/a.png", true},
		{`a\[1\].png`, "x/a[1].png", true},
	} {
		for want, roles := range map[transcode.Role]transcode.Roles{
			transcode.Image: {Images: []string{"*.none", c.pattern}},
			transcode.Mask:  {Masks: []string{"*.none", c.pattern}, Images: []string{"**"}},
		} {
			if err := roles.Check(); err != nil {
				t.Errorf("%q: %v", c.pattern, err)
			}
			if got := roles.Of(c.path); (got == want) != c.want {
				t.Errorf("%q of %q: role %d", c.pattern, c.path, got)
			}
		}
	}
}

// TestUnmatched wants the patterns that match nothing, and no more looking than that
// takes.
func TestUnmatched(t *testing.T) {
	samples := []string{"a.jpg", "x/a_mask.png", "x/b.jpg", "y/c.jpg"}
	for _, c := range []struct {
		roles transcode.Roles
		want  []string
		looks int
	}{
		{transcode.Roles{}, nil, 0},
		{transcode.Roles{Images: []string{"*.jpg"}}, nil, 1},
		{transcode.Roles{Images: []string{"*.jpg"}, Masks: []string{"*_mask.png"}}, nil, 2},
		{transcode.Roles{Images: []string{"*.jpeg"}, Masks: []string{"x/*", "z/*"}}, []string{"*.jpeg", "z/*"}, 4},
	} {
		before := slices.Concat(c.roles.Images, c.roles.Masks)
		looks := 0
		got := c.roles.Unmatched(func(yield func(string) bool) {
			for _, s := range samples {
				if looks++; !yield(s) {
					return
				}
			}
		})
		if !slices.Equal(got, c.want) || looks != c.looks {
			t.Errorf("%v: %q after %d samples, want %q after %d", c.roles, got, looks, c.want, c.looks)
		}
		if !slices.Equal(before, slices.Concat(c.roles.Images, c.roles.Masks)) {
			t.Errorf("%v: the roles were changed", c.roles)
		}
	}
}

// TestScalesEveryFormat: what is no JPEG is scaled to the size that a JPEG is decoded to,
// as resize would do it, so that pictures and masks of a dataset of many formats fit.
func TestScalesEveryFormat(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, m := range []transcode.Mode{transcode.ModeRGB, transcode.ModeRGBA, transcode.ModeL} {
		for _, size := range [][2]int{{61, 47}, {9, 9}, {1, 5}} {
			px := pillow.Sample(m, size[0], size[1])
			file, err := png.Encode(t.Context(), px)
			testenv.Must(t, err)
			for name, by := range map[string]int{"half": 2, "quarter": 4, "eighth": 8} {
				p, err := r.Parse(name + "-png")
				testenv.Must(t, err)
				info, err := r.ProbeBytes(file)
				testenv.Must(t, err)
				made, err := r.Plan(p, info, transcode.Image).Run(t.Context(), file)
				if err != nil {
					t.Fatalf("%s of %v %v: %v", p, m, size, err)
				}
				got, err := r.Decode(t.Context(), made)
				testenv.Must(t, err)
				want := scaled(t, px, (size[0]+by-1)/by, (size[1]+by-1)/by)
				if got.Width != want.Width || got.Height != want.Height || got.Mode != m || !bytes.Equal(got.Pix, want.Pix) {
					t.Errorf("%s of %v %v: %v %dx%d, other pixels than resize's", p, m, size, got.Mode, got.Width, got.Height)
				}
			}
		}
	}
}

// TestMaskFollows wants a marked mask to have the size of its picture, a JPEG, in every
// view, and no label that it did not have before.
func TestMaskFollows(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, size := range [][2]int{{61, 47}, {9, 9}, {1, 5}} {
		picture := transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: size[0], Height: size[1], Scannable: true}
		masks := map[string][]byte{}
		for _, m := range []transcode.Mode{transcode.ModeBit, transcode.ModeP, transcode.ModeRGB, transcode.ModeI16, transcode.ModeRGBA16} {
			px := pillow.Sample(m, size[0], size[1])
			file, err := png.Encode(t.Context(), px)
			testenv.Must(t, err)
			masks[fmt.Sprintf("%v %v png", m, size)] = file
			if file, err := bmp.Encode(px); err == nil {
				masks[fmt.Sprintf("%v %v bmp", m, size)] = file
			}
		}
		for name, file := range masks {
			info, err := r.ProbeBytes(file)
			testenv.Must(t, err)
			before := labels(t, r, file)
			for _, geometry := range strings.Fields("resize16 resize200 crop20 resize24-crop16 half quarter eighth half-resize7 scan5-resize16") {
				for _, encoder := range strings.Fields("bmp ppm png npy l3 jpeg90") {
					p, err := r.Parse(geometry + "-" + encoder)
					testenv.Must(t, err)
					plan := r.Plan(p, info, transcode.Mask)
					steps := r.Plan(p, picture, transcode.Auto).Steps()
					want := steps[len(steps)-1].Out
					if plan.Unchanged() {
						if info.Width != want.Width || info.Height != want.Height {
							t.Errorf("%s of %s: unchanged, and its picture is %dx%d", p, name, want.Width, want.Height)
						}
						continue
					}
					last := plan.Steps()[plan.Len()-1]
					got, err := plan.Run(t.Context(), file)
					if err != nil {
						t.Errorf("%s of %s: %v", p, name, err)
						continue
					}
					if last.Out.Width != want.Width || last.Out.Height != want.Height {
						t.Errorf("%s of %s: %dx%d, its picture is %dx%d", p, name, last.Out.Width, last.Out.Height, want.Width, want.Height)
					}
					if last.Kind.Format == transcode.NPY {
						continue
					}
					made, err := r.ProbeBytes(got)
					if err != nil || made.Width != want.Width || made.Height != want.Height || made.Mode != info.Mode {
						t.Errorf("%s of %s: made %+v, %v", p, name, made, err)
						continue
					}
					for label := range labels(t, r, got) {
						// what crop adds around a small mask is 0
						if !before[label] && strings.Trim(label, "\x00") != "" {
							t.Errorf("%s of %s: label %x is new", p, name, label)
							break
						}
					}
				}
			}
		}
	}
}

// labels are the values that pixels of a file have.
func labels(t *testing.T, r *transcode.Registry, file []byte) map[string]bool {
	t.Helper()
	px, err := r.Decode(t.Context(), file)
	testenv.Must(t, err)
	found := map[string]bool{}
	for pixel := range slices.Chunk(px.Pix, px.Mode.Channels()*px.Type.Size()) {
		found[string(pixel)] = true
	}
	return found
}

// TestPairs finds the masks of pictures, and the pictures of masks.
func TestPairs(t *testing.T) {
	for _, c := range []struct{ pairs, picture, mask string }{
		{"images/**.jpg=masks/**.png", "images/train/a/1.jpg", "masks/train/a/1.png"},
		{"images/**=masks/**", "images/1.png", "masks/1.png"},
		{"images/**/*.jpg=masks/**/*_m.png", "images/1.jpg", "masks/1_m.png"},
		{"images/**/*.jpg=masks/**/*_m.png", "images/a/b/1.jpg", "masks/a/b/1_m.png"},
		{"/leftImg8bit/**_leftImg8bit.png=gtFine/**_gtFine_labelIds.png", "leftImg8bit/val/ulm/ulm_7_leftImg8bit.png", "gtFine/val/ulm/ulm_7_gtFine_labelIds.png"},
		{"*/images/*.jpg=*/labels/*.tif", "x/images/[1].jpg", "x/labels/[1].tif"},
		{"**.jpg=**_mask.png", "a\nb.jpg", "a\nb_mask.png"},
		{"**.jpg=**.png **.jpeg=**.png", "x/1.jpeg", "x/1.png"},
		{"**.png=**_mask.png", "1.png", "1_mask.png"},
		{"images/*.jpg=masks/*.png", "images/a/1.jpg", ""},
		{"images/**.jpg=masks/**.png", "xx/images/1.jpg", ""},
		{"images/**.jpg=masks/**.png", "images/1_jpg", ""},
		{"**.png=**_mask.png", "1_mask.png", ""}, // it is one itself
	} {
		var r transcode.Roles
		for _, text := range strings.Fields(c.pairs) {
			p, err := transcode.ParsePair(text)
			testenv.Must(t, err)
			r.Pairs = append(r.Pairs, p)
		}
		text, err := json.Marshal(r)
		testenv.Must(t, err)
		r = transcode.Roles{}
		testenv.Must(t, json.Unmarshal(text, &r))
		if got := r.MaskOf(c.picture); got != c.mask {
			t.Errorf("%s: the mask of %q is %q, want %q", c.pairs, c.picture, got, c.mask)
		}
		if c.mask == "" {
			continue
		}
		if !slices.Contains(r.PicturesOf(c.mask), c.picture) || r.PicturesOf(c.picture) != nil {
			t.Errorf("%s: the pictures of %q are %q, and of %q %q", c.pairs, c.mask, r.PicturesOf(c.mask), c.picture, r.PicturesOf(c.picture))
		}
		if r.Of(c.picture) != transcode.Image || r.Of(c.mask) != transcode.Mask || r.Of("other/1.gif") != transcode.Auto || !r.Given() {
			t.Errorf("%s: roles %v, %v", c.pairs, r.Of(c.picture), r.Of(c.mask))
		}
	}
	for text, want := range map[string]string{
		"images/*.jpg":                   "one = has to stand",
		"=masks/*.png":                   "one = has to stand",
		"a=*/*.jpg=a=*/*.png":            "one = has to stand",
		"images/1.jpg=masks/1.png":       "the same wildcards",
		"images/**.jpg=masks/*.png":      "the same wildcards",
		"images/*/*.jpg=masks/*.png":     "the same wildcards",
		"images/[ab]*.jpg=masks/*.png":   "only wildcards",
		"images/*.{jpg,png}=masks/*.png": "only wildcards",
		"images/*.png=/images/*.png":     "are the same",
	} {
		if _, err := transcode.ParsePair(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestFollow wants an error where a mask cannot follow its picture.
func TestFollow(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, c := range []struct {
		view        string
		width       int // of the picture
		orientation uint8
		want        string
	}{
		{"rrc32-hflip-npy", 60, 0, ""},
		{"rrc32-hflip-npy", 61, 0, "the mask has 60×40 pixels before rrc32, and its picture 61×40"},
		{"trivialaugment-npy", 61, 0, "before trivialaugment"},
		{"resize40-crop32-npy", 60, 0, ""},
		{"resize20-crop16-npy", 90, 0, "before resize20"},
		{"half-rrc32-npy", 60, 0, ""},
		{"half-rrc32-npy", 90, 0, "its picture 90×40"},
		{"rrc32-npy", 60, 3, ""},
		{"upright-rrc32-npy", 60, 3, ""},
		{"upright-rrc32-npy", 60, 6, "its picture 40×60"},
		{"bmp", 90, 0, ""}, // nothing moves
	} {
		v, err := r.ParseRandom(c.view)
		testenv.Must(t, err)
		mask := r.Plan(v, transcode.Info{Format: transcode.PNG, Mode: transcode.ModeP, Width: 60, Height: 40}, transcode.Mask)
		picture := r.Plan(v, transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: c.width, Height: 40, Orientation: c.orientation}, transcode.Image)
		if err := mask.Follow(picture); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %d columns, orientation %d: %v, want %q", c.view, c.width, c.orientation, err, c.want)
		}
	}
}
