package transcode_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/pnm"
	"github.com/pipefs/pipefs/transcode/raster"
)

// words are the steps of a plan, without the implementations.
func words(p transcode.Plan) string {
	w, _, _ := strings.Cut(p.Key(), "@")
	return w
}

const (
	unchanged = transcode.Original
	auto      = transcode.Auto
	image     = transcode.Image
	mask      = transcode.Mask
)

// TestPlan says, for kinds of samples and views, which steps apply.
func TestPlan(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	info := func(f transcode.Format, m transcode.Mode, change ...func(*transcode.Info)) transcode.Info {
		i := transcode.Info{Format: f, Mode: m, Width: 500, Height: 375}
		for _, c := range change {
			c(&i)
		}
		return i
	}
	transparent := func(i *transcode.Info) { i.Transparent = true }
	animated := func(i *transcode.Info) { i.Animated = true }
	scannable := func(i *transcode.Info) { i.Scannable = true }
	turned := func(i *transcode.Info) { i.Orientation = 6 }
	small := func(i *transcode.Info) { i.Width, i.Height = 256, 300 }
	sliver := func(i *transcode.Info) { i.Width, i.Height = 1, 100000 }

	jpeg := info(transcode.JPEG, transcode.ModeRGB, scannable)
	rgb := info(transcode.PNG, transcode.ModeRGB)
	palette := info(transcode.PNG, transcode.ModeP)
	clear := info(transcode.PNG, transcode.ModeP, transparent)
	bit := info(transcode.PNG, transcode.ModeBit)
	grey := info(transcode.PNG, transcode.ModeL)
	sixteen := info(transcode.PNG, transcode.ModeI16)
	rgba := info(transcode.PNG, transcode.ModeRGBA)
	la := info(transcode.PNG, transcode.ModeLA)
	rgb16 := info(transcode.PNG, transcode.ModeRGB16)
	key := info(transcode.PNG, transcode.ModeRGB, transparent)
	gif := info(transcode.GIF, transcode.ModeP, animated)
	unknown := info(transcode.TIFF, transcode.ModeNone)

	for _, c := range []struct {
		spec string
		info transcode.Info
		role transcode.Role
		want string
	}{
		// A JPEG is a picture.
		{"original", jpeg, auto, unchanged},
		{"scan5", jpeg, auto, "scan"},
		{"scan10", jpeg, auto, "scan"},
		{"scan5-bmp", jpeg, auto, "scan5-decode-bmp"},
		{"bmp", jpeg, auto, "decode-bmp"},
		{"resize256-jpeg90", jpeg, auto, "decode-resize256-jpeg90"},
		{"jpeg90", jpeg, auto, "decode-jpeg90"},
		{"upright-bmp", jpeg, auto, "decode-bmp"},
		{"upright-bmp", info(transcode.JPEG, transcode.ModeRGB, turned), auto, "decode-upright-bmp"},
		{"resize256-bmp", info(transcode.JPEG, transcode.ModeRGB, small), auto, "decode-bmp"},
		{"crop256-bmp", info(transcode.JPEG, transcode.ModeRGB, small), auto, "decode-crop256-bmp"},
		{"grey-npy", jpeg, auto, "decode-grey-npy"},
		{"resize256-crop224-center-chw-npy", jpeg, auto, "decode-resize256-crop224-center-chw-npy"},
		{"scan5", info(transcode.JPEG, transcode.ModeRGB), auto, unchanged}, // arithmetic, CMYK
		// Unless somebody calls it a mask.
		{"scan5", jpeg, mask, unchanged},
		{"scan10", jpeg, mask, "scan"},
		{"jpeg90", jpeg, mask, unchanged},
		{"resize256-bmp", jpeg, mask, "decode-resize256~-bmp"},

		// A mask is left alone, or follows geometry by nearest neighbour.
		{"scan5", palette, auto, unchanged},
		{"bmp", palette, auto, "decode-bmp"},
		{"png", palette, auto, unchanged},
		{"resize256-png", palette, auto, unchanged},
		{"resize256-bmp", palette, auto, "decode-bmp"},
		{"resize256-bmp", palette, mask, "decode-resize256~-bmp"},
		{"resize256-bmp", palette, image, "decode-resize256-bmp"},
		{"resize256-jpeg90", palette, auto, unchanged},
		{"resize256-jpeg90", palette, mask, "decode-resize256~-png"},
		{"jpeg90", palette, mask, unchanged},
		{"scan5", palette, mask, unchanged},
		{"grey-jpeg90", palette, mask, unchanged},
		{"crop224-jpeg90", palette, mask, "decode-crop224~-png"},
		{"resize256-crop224-jpeg90", bit, mask, "decode-resize256~-crop224~-png"},
		{"scan5-resize256-grey-jpeg90", rgb, mask, "decode-resize256~-png"},
		{"resize256-jpeg90", jpeg, mask, "decode-resize256~-png"},
		{"resize256-jpeg90", info(transcode.BMP, transcode.ModeRGB), mask, "decode-resize256~-bmp"},
		{"resize256-jpeg90", info(transcode.PNM, transcode.ModeI16), mask, "decode-resize256~-ppm"},
		{"resize256-jpeg90", info(transcode.TIFF, transcode.ModeI16), mask, "decode-resize256~-png"},
		{"resize256-jpeg90", info(transcode.GIF, transcode.ModeP), mask, "decode-resize256~-png"},
		{"resize256-bmp", key, mask, "decode-resize256~-png"},
		{"resize256-jpeg90", gif, mask, unchanged},
		{"half-bmp", palette, mask, "decode-half~-bmp"},
		{"half-bmp", palette, auto, "decode-bmp"},
		{"half-bmp", palette, image, "decode-half-bmp"},
		{"half-bmp", rgb, auto, "decode-half-bmp"},
		{"half-bmp", jpeg, auto, "half-bmp"},
		{"half-bmp", jpeg, mask, "decode-half~-bmp"},
		{"quarter-jpeg90", sixteen, mask, "decode-quarter~-png"},
		{"eighth-resize32-npy", bit, mask, "decode-eighth~-resize32~-npy"},
		{"resize256-jpeg90", palette, image, "decode-resize256-jpeg90"},
		{"jpeg90", palette, image, unchanged},         // it is still a palette
		{"resize256-jpeg90", clear, image, unchanged}, // it has become RGBA
		{"resize256-bmp", clear, image, "decode-resize256-bmp"},
		{"bmp", clear, image, unchanged},
		{"resize256-bmp", clear, mask, "decode-resize256~-png"},
		{"resize256-png", clear, mask, "decode-resize256~-png"},
		{"resize256-bmp", bit, auto, "decode-bmp"},
		{"resize256-bmp", bit, mask, "decode-resize256~-bmp"},
		{"resize256-jpeg90", bit, image, "decode-resize256-jpeg90"},
		{"resize256-bmp", grey, auto, "decode-bmp"},
		{"resize256-jpeg90", grey, auto, unchanged},
		{"resize256-jpeg90", grey, image, "decode-resize256-jpeg90"},
		{"resize256-bmp", sixteen, auto, unchanged},
		{"resize256-bmp", sixteen, mask, "decode-resize256~-png"},
		{"resize256-png", sixteen, mask, "decode-resize256~-png"},
		{"resize256-png", sixteen, image, unchanged},
		{"resize256-npy", sixteen, image, "decode-npy"},
		{"resize256-npy", sixteen, auto, "decode-npy"},
		{"center-npy", sixteen, auto, "decode-npy"},
		{"center-npy", sixteen, image, "decode-center-npy"},
		{"float32-npy", sixteen, auto, "decode-float32-npy"},
		{"grey-npy", palette, auto, "decode-npy"},
		{"grey-npy", palette, image, "decode-grey-npy"},
		{"grey-npy", grey, image, "decode-npy"},
		{"resize256-npy", rgb16, image, "decode-npy"},
		{"crop224-npy", rgb16, image, "decode-crop224-npy"},

		// A view with rgb takes all samples for pictures, except those that somebody calls masks.
		{"rgb-npy", jpeg, auto, "decode-npy"},
		{"rgb-resize256-bmp", rgb, auto, "decode-resize256-bmp"},
		{"rgb-resize256-bmp", palette, auto, "decode-rgb-resize256-bmp"},
		{"rgb-resize256-bmp", palette, image, "decode-rgb-resize256-bmp"},
		{"rgb-resize256-bmp", palette, mask, "decode-resize256~-bmp"},
		{"rgb-resize256-jpeg90", clear, auto, "decode-rgb-resize256-jpeg90"},
		{"rgb-crop224-jpeg90", rgb16, auto, "decode-rgb-crop224-jpeg90"},
		{"resize256-rgb-bmp", la, auto, "decode-resize256-rgb-bmp"},
		{"grey-rgb-npy", rgba, auto, "decode-grey-rgb-npy"},
		{"half-rgb-npy", sixteen, auto, "decode-rgb-npy"},
		{"rgb-bmp", key, auto, "decode-rgb-bmp"},
		{"rgb-bmp", gif, auto, "decode-rgb-bmp"},
		{"rgb-bmp", gif, mask, unchanged},
		{"rgb-png", grey, auto, "decode-rgb-png"},
		{"rgb-png", rgb, auto, unchanged},
		{"rgb-npy", unknown, auto, unchanged},

		// What a format cannot hold stays as it is.
		{"png", rgb, auto, unchanged},
		{"resize256-png", rgb, auto, "decode-resize256-png"},
		{"jpeg90", rgb, auto, "decode-jpeg90"},
		{"jpeg90", rgba, auto, unchanged},
		{"bmp", rgba, auto, "decode-bmp"},
		{"ppm", rgba, auto, unchanged},
		{"npy", rgba, auto, "decode-npy"},
		{"grey-jpeg90", rgba, auto, unchanged},
		{"bmp", la, auto, unchanged},
		{"npy", la, auto, "decode-npy"},
		{"ppm", sixteen, auto, "decode-ppm"},
		{"bmp", rgb16, auto, unchanged},
		{"ppm", rgb16, auto, "decode-ppm"},
		{"bmp", key, auto, unchanged},
		{"resize256-png", key, auto, unchanged},
		{"npy", key, auto, "decode-npy"},
		{"bmp", gif, auto, unchanged},
		{"bmp", gif, mask, unchanged},
		{"bmp", gif, image, "decode-bmp"},
		{"npy", unknown, auto, unchanged},
		{"resize256-npy", unknown, image, unchanged},
		{"png", info(transcode.BMP, transcode.ModeRGB), auto, "decode-png"},
		{"bmp", info(transcode.BMP, transcode.ModeRGB), auto, unchanged},
		{"ppm", info(transcode.PNM, transcode.ModeL), auto, unchanged},
		{"resize8192-npy", info(transcode.JPEG, transcode.ModeRGB, sliver), auto, "decode-npy"},
	} {
		p, err := r.Parse(c.spec)
		testenv.Must(t, err)
		if got := words(r.Plan(p, c.info, c.role)); got != c.want {
			t.Errorf("%s of %v %v, role %d: %s, want %s", c.spec, c.info.Format, c.info.Mode, c.role, got, c.want)
		}
	}
}

// TestSpared says which plans leave out steps because a sample may be a mask, and in which the
// pixels decide.
func TestSpared(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	info := transcode.Info{Format: transcode.PNG, Width: 500, Height: 375}
	for _, c := range []struct {
		spec              string
		mode              transcode.Mode
		role              transcode.Role
		spared, undecided bool
	}{
		{"resize256-bmp", transcode.ModeL, auto, true, true},
		{"resize256-png", transcode.ModeL, auto, true, true}, // shown as it is
		{"rrc32-hflip-npy", transcode.ModeP, auto, true, true},
		{"crop224-npy", transcode.ModeLA, auto, true, true},
		{"center-npy", transcode.ModeBit, auto, true, false},
		{"crop224-npy", transcode.ModeI16, auto, true, false},
		{"half-bmp", transcode.ModeL, auto, true, true},
		{"rrc32-npy", transcode.ModeL, image, false, false},
		{"rrc32-npy", transcode.ModeL, mask, false, false},
		{"rrc32-npy", transcode.ModeRGBA, auto, false, false},
		{"rgb-rrc32-npy", transcode.ModeL, auto, false, false},
		{"bmp", transcode.ModeL, auto, false, false},
		{"resize375-bmp", transcode.ModeL, auto, false, false},   // it has that size
		{"upright-png", transcode.ModeL, auto, false, false},     // there is nothing to turn
		{"resize256-npy", transcode.ModeI16, auto, false, false}, // no picture of that mode is scaled
		{"jpeg90", transcode.ModeP, auto, false, false},          // which holds no palette
		{"grey-npy", transcode.ModeL, auto, false, false},
	} {
		p, err := r.ParseRandom(c.spec)
		testenv.Must(t, err)
		info.Mode = c.mode
		if got := r.Plan(p, info, c.role).Spared(); got != c.spared {
			t.Errorf("%s of mode %v, role %d: spared is %v", p, c.mode, c.role, got)
		}
		if got := r.Undecided(p, info, c.role); got != c.undecided {
			t.Errorf("%s of mode %v, role %d: undecided is %v", p, c.mode, c.role, got)
		}
	}
}

// TestOfPictures says which view takes the samples that another one spares, and in which
// views all pictures get one size.
func TestOfPictures(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, c := range []struct{ spec, want, size string }{
		{"rrc224-hflip-npy", "rgb-rrc224-hflip-npy", "224x224"},
		{"resize256-crop224-bmp-own", "rgb-resize256-crop224-bmp-own", "224x224"},
		{"scan5-resize256-bmp", "scan5-rgb-resize256-bmp", ""},
		{"half-npy", "half-rgb-npy", ""},
		{"stored-crop9-bmp", "rgb-crop9-bmp", ""}, // it shows others as they are
		{"rgb-randcrop7-npy", "rgb-randcrop7-npy", "7x7"},
		{"hflip-npy", "rgb-hflip-npy", ""},
		{"scan5", "scan5", ""},
		{"original", "original", ""},
	} {
		p, err := r.ParseRandom(c.spec)
		testenv.Must(t, err)
		of := r.OfPictures(p)
		if again, err := r.ParseRandom(of.String()); err != nil || of.String() != c.want || again.Len() != of.Len() {
			t.Errorf("%s: %s, want %s, %v", p, of, c.want, err)
		}
		size := ""
		if fixed, ok := r.Fixed(p); ok {
			size = fmt.Sprintf("%dx%d", fixed.Out().Width, fixed.Out().Height)
		}
		if size != c.size {
			t.Errorf("%s: size %q, want %q", p, size, c.size)
		}
	}
}

// sources is a file of each format and mode that we can write.
func sources(t *testing.T) map[string][]byte {
	files := map[string][]byte{}
	add := func(name string, b []byte, err error) {
		testenv.Must(t, err)
		files[name] = b
	}
	for m := transcode.ModeBit; m <= transcode.ModeRGBA16; m++ {
		for _, size := range pillow.Sizes {
			px := pillow.Sample(m, size[0], size[1])
			px.Meta.EXIF = []byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00")
			name := fmt.Sprintf("%v %dx%d ", m, px.Width, px.Height)
			b, err := png.Encode(t.Context(), px)
			add(name+"png", b, err)
			switch m {
			case transcode.ModeP:
				px.Palette[7] = 0
				b, err = png.Encode(t.Context(), px)
				add(name+"transparent png", b, err)
			case transcode.ModeL, transcode.ModeRGB:
				b, err = raster.EncodeJPEG(px, 80)
				add(name+"jpg", b, err)
				b, err = bmp.Encode(px)
				add(name+"bmp", b, err)
				b, err = pnm.Encode(px)
				add(name+"ppm", b, err)
			}
		}
	}
	return files
}

// TestRun runs many plans on many files: each makes a file of the promised
// length, shape and format, the same each time.
func TestRun(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	specs := strings.Fields(`scan1 scan5 scan10 bmp ppm npy png jpeg90 scan2-bmp
		resize7-bmp resize50-ppm resize7-npy resize31-png resize31-jpeg50 crop1-bmp crop31-npy crop200-png
		grey-bmp grey-npy grey-jpeg90 upright-bmp upright-npy upright-png upright-resize20-crop16-bmp
		center-npy float32-npy chw-npy center-chw-npy float32-chw-npy grey-center-chw-npy center-grey-crop9-npy
		rgb-npy rgb-resize31-png resize20-rgb-crop16-jpeg90 rgb-chw-npy
		resize20-crop16-center-chw-npy scan3-upright-resize20-grey-jpeg90`)
	applied := 0
	for name, src := range sources(t) {
		info, err := r.ProbeBytes(src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		done := map[string]bool{} // roles often come to the same plan
		for _, spec := range specs {
			p, err := r.Parse(spec)
			testenv.Must(t, err)
			for _, role := range []transcode.Role{auto, image, mask} {
				plan := r.Plan(p, info, role)
				if _, split := plan.Head(); done[plan.Key()] && !split && !plan.Unchanged() {
					continue
				}
				done[plan.Key()] = true
				what := fmt.Sprintf("%s of %s, role %d (%s)", spec, name, role, words(plan))
				got, err := plan.Run(context.Background(), src)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				size, closed := plan.Size()
				if plan.Unchanged() {
					if !bytes.Equal(got, src) || closed {
						t.Errorf("%s: changed", what)
					}
					continue
				}
				applied++
				last := plan.Steps()[plan.Len()-1].Kind
				if closed != (last.Size != nil) || closed && size != int64(len(got)) {
					t.Errorf("%s: %d bytes, promised %d", what, len(got), size)
				}
				if last.Format == transcode.NPY {
					continue
				}
				format := last.Format
				if format == transcode.Unknown { // no encoder: the source's
					format = info.Format
				}
				if out, err := r.ProbeBytes(got); err != nil || out.Format != format {
					t.Errorf("%s: made %v, %v", what, out.Format, err)
				}
			}
		}
	}
	t.Logf("%d plans applied", applied)
}

// TestSplit wants every level of a splittable step to be what the step makes.
func TestSplit(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for name, src := range sources(t) {
		if !strings.HasSuffix(name, "jpg") {
			continue
		}
		info, err := r.ProbeBytes(src)
		testenv.Must(t, err)
		for level := 1; level <= 10; level++ {
			p, err := r.Parse(fmt.Sprintf("scan%d-ppm", level))
			if level == 10 {
				p, err = r.Parse("scan10")
			}
			testenv.Must(t, err)
			plan := r.Plan(p, info, auto)
			head, ok := plan.Head()
			if !ok || head.Arg != level {
				t.Fatalf("%s: level %d: head %v", name, level, head)
			}
			split, err := head.Kind.Split(t.Context(), src, r.Limits(), false)
			testenv.Must(t, err)
			cut := append(bytes.Clone(split.Data[:split.Ends[split.Levels[level-1]-1]]), split.Tail...)
			want, err := r.Plan(p.Prefix(1), info, auto).Run(t.Context(), src)
			if err != nil || !bytes.Equal(cut, want) {
				t.Errorf("%s: level %d: %d bytes, want %d: %v", name, level, len(cut), len(want), err)
			}
			all, err := plan.Run(t.Context(), src)
			rest, restErr := plan.RunAfter(t.Context(), 1, cut, func(n int64) []byte { return make([]byte, n) })
			if err != nil || restErr != nil || !bytes.Equal(all, rest) {
				t.Errorf("%s: level %d: the rest of the plan differs: %v, %v", name, level, err, restErr)
			}
		}
	}
}

// TestKeys wants a key to tell apart what differs.
func TestKeys(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	seen := map[string]string{}
	for _, f := range []transcode.Format{transcode.JPEG, transcode.PNG} {
		info := transcode.Info{Format: f, Mode: transcode.ModeRGB, Width: 500, Height: 375}
		for _, spec := range strings.Fields("bmp ppm npy resize256-bmp resize257-bmp crop256-bmp jpeg90 jpeg91 center-npy") {
			p, err := r.Parse(spec)
			testenv.Must(t, err)
			for _, role := range []transcode.Role{auto, mask} {
				plan := r.Plan(p, info, role)
				if plan.Unchanged() {
					continue
				}
				what := fmt.Sprintf("%v %s", f, words(plan))
				if before, ok := seen[plan.Key()]; ok && before != what {
					t.Errorf("%s and %s have the key %s", before, what, plan.Key())
				}
				seen[plan.Key()] = what
				if !r.Makes(plan.Key()) || r.Makes(plan.Key()+"0") {
					t.Errorf("%s: %s is not told from that of another implementation", what, plan.Key())
				}
			}
		}
	}
}

// TestMetadata wants EXIF in derived files, and an orientation that holds.
func TestMetadata(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	src := sources(t)["RGB 5x3 png"]
	info, err := r.ProbeBytes(src)
	if err != nil || info.Orientation != 6 {
		t.Fatalf("%+v, %v", info, err)
	}
	for spec, want := range map[string]uint8{"resize9-png": 6, "jpeg90": 6, "upright-png": 1, "upright-jpeg90": 1} {
		p, err := r.Parse(spec)
		testenv.Must(t, err)
		b, err := r.Plan(p, info, auto).Run(t.Context(), src)
		testenv.Must(t, err)
		if out, err := r.ProbeBytes(b); err != nil || out.Orientation != want {
			t.Errorf("%s: orientation %d, want %d, %v", spec, out.Orientation, want, err)
		}
	}
}

func TestProbeOfNothing(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, src := range []string{"", "x", "hello, world, this is no picture", "\xff\xd8\xff", "BM", "\x89PNG\r\n\x1a\n"} {
		if info, err := r.ProbeBytes([]byte(src)); err == nil {
			t.Errorf("%q: %+v", src, info)
		}
	}
}
