// Package pictures makes pictures that behave like photographs to a codec:
// smooth areas, edges, texture and a little noise. Tests, the demo and the
// benchmarks use them, so that none of them needs a download. The same seed
// gives the same picture.
package pictures

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/pipefs/pipefs/transcode"
)

// Photo draws a picture of width by height pixels.
func Photo(width, height int, seed uint64) *image.NRGBA {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	lights, tints, textures := newField(r).over(width, 1./256), newField(r).over(width, 1./512), newField(r).over(width, 9./256)
	things := newThings(r, width, height)
	base := [3]float64{r.Float64()*90 + 70, r.Float64()*90 + 70, r.Float64()*90 + 70}
	for y := range height {
		lights.enter(y)
		tints.enter(y)
		textures.enter(y)
		for x := range width {
			// what lights a scene moves all channels together, its colours hardly
			light := lights.at(x) * 55
			tint := tints.at(x) * 18
			texture := textures.at(x) * 14
			tone := things.at(float64(x), float64(y))
			grain := r.NormFloat64() * 5
			i := img.PixOffset(x, y)
			img.Pix[i+0] = clamp(base[0] + light + tint + texture + tone[0] + grain)
			img.Pix[i+1] = clamp(base[1] + light + texture + tone[1] + grain)
			img.Pix[i+2] = clamp(base[2] + light - tint + texture + tone[2] + grain)
			img.Pix[i+3] = 255
		}
	}
	return img
}

// Mask draws a label map of a few classes, as semantic segmentation has them.
func Mask(width, height, classes int, seed uint64) *image.Paletted {
	r := rand.New(rand.NewPCG(seed, 0x2545f4914f6cdd1d))
	palette := make(color.Palette, classes)
	for i := range palette {
		palette[i] = color.NRGBA{R: uint8(i * 67), G: uint8(i * 29), B: uint8(i * 113), A: 255}
	}
	img := image.NewPaletted(image.Rect(0, 0, width, height), palette)
	classLevels := newField(r).over(width, 1./200)
	for y := range height {
		classLevels.enter(y)
		for x := range width {
			level := (classLevels.at(x) + 1) / 2
			img.Pix[y*img.Stride+x] = uint8(min(float64(classes-1), max(0, level*float64(classes))))
		}
	}
	return img
}

// field is a sum of waves: smooth, and the same everywhere.
type field [6]wave

type wave struct{ fx, fy, phase, amplitude float64 }

func newField(r *rand.Rand) (f field) {
	for i := range f {
		angle := r.Float64() * 2 * math.Pi
		frequency := math.Pow(1.8, float64(i)) * (0.7 + r.Float64())
		f[i] = wave{math.Cos(angle) * frequency, math.Sin(angle) * frequency, r.Float64() * 2 * math.Pi, math.Pow(0.62, float64(i)) * 0.6}
	}
	return f
}

// grid has the values of a field at the pixels of a picture. The sine of a sum is made of
// the sines and cosines of its parts, so that a wave costs a sine for each column and each
// row rather than one for each pixel, which took most of the time of a picture.
type grid struct {
	field   field
	scale   float64 // the size of a pixel
	columns [][len(field{})]turn
	row     [len(field{})]turn // with the amplitude
}

type turn struct{ sin, cos float64 }

func (f field) over(width int, scale float64) *grid {
	g := &grid{field: f, scale: scale, columns: make([][len(f)]turn, width)}
	for x := range g.columns {
		for i, w := range f {
			sin, cos := math.Sincos(w.fx * float64(x) * scale)
			g.columns[x][i] = turn{sin, cos}
		}
	}
	return g
}

// enter moves to a row.
func (g *grid) enter(y int) {
	for i, w := range g.field {
		sin, cos := math.Sincos(w.fy*float64(y)*g.scale + w.phase)
		g.row[i] = turn{w.amplitude * sin, w.amplitude * cos}
	}
}

// at is the value at a column of the row.
func (g *grid) at(x int) (sum float64) {
	column := &g.columns[x]
	for i, r := range g.row {
		sum += r.sin*column[i].cos + r.cos*column[i].sin
	}
	return sum
}

// things are discs with sharp edges, some before others.
type things []thing

type thing struct {
	x, y, radius float64
	tone         [3]float64
}

func newThings(r *rand.Rand, width, height int) things {
	t := make(things, 5+r.IntN(6))
	for i := range t {
		shade := r.Float64()*120 - 60
		t[i] = thing{
			x: r.Float64() * float64(width), y: r.Float64() * float64(height),
			radius: (0.05 + 0.2*r.Float64()) * float64(min(width, height)),
			tone:   [3]float64{shade + r.Float64()*40, shade, shade - r.Float64()*40},
		}
	}
	return t
}

func (t things) at(x, y float64) [3]float64 {
	for _, d := range t {
		if (x-d.x)*(x-d.x)+(y-d.y)*(y-d.y) < d.radius*d.radius {
			return d.tone
		}
	}
	return [3]float64{}
}

func clamp(v float64) uint8 { return uint8(min(255, max(0, v))) }

// Costly is a JPEG, grey and 8 by 8 pixels, that is valid and asks for more work
// than its size tells: 190 scans, each of which passes over the whole picture,
// and so many comments.
func Costly(comments int) []byte {
	var b bytes.Buffer
	segment := func(marker byte, payload ...byte) {
		b.Write([]byte{0xff, marker, 0, byte(len(payload) + 2)})
		b.Write(payload)
	}
	b.Write([]byte{0xff, 0xd8})
	for range comments {
		segment(0xfe, []byte("why not")...)
	}
	segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	segment(0xc2, 8, 0, 8, 0, 8, 1, 1, 0x11, 0)
	// One code, of one bit, in each table: no difference, and an end of band.
	one := append([]byte{1}, make([]byte, 16)...)
	segment(0xc4, append([]byte{0x00}, one...)...)
	segment(0xc4, append([]byte{0x10}, one...)...)
	scan := func(from, to, bits byte) {
		segment(0xda, 1, 1, 0, from, to, bits)
		b.WriteByte(0x7f) // the code, then ones up to the byte's end
	}
	scan(0, 0, 0x00)
	for _, bits := range []byte{0x02, 0x21, 0x10} { // each coefficient coarse, finer, exact
		for k := byte(1); k < 64; k++ {
			scan(k, k, bits)
		}
	}
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}

// Encode makes the file of a picture that its name says: JPEG of quality 90 for .jpg, else PNG.
func Encode(name string, m image.Image) ([]byte, error) {
	var b bytes.Buffer
	if filepath.Ext(name) == ".jpg" {
		// The encoder is several times as fast with RGBA, which is the same for opaque pixels.
		if n, ok := m.(*image.NRGBA); ok && n.Opaque() {
			m = &image.RGBA{Pix: n.Pix, Stride: n.Stride, Rect: n.Rect}
		}
		err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 90})
		return b.Bytes(), err
	}
	err := png.Encode(&b, m)
	return b.Bytes(), err
}

// Write writes what Encode makes, and the directories that it lies in.
func Write(path string, m image.Image) error {
	b, err := Encode(path, m)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	return err
}

// L3Modes are the modes that L3 files have in version 2.
var L3Modes = []transcode.Mode{
	transcode.ModeL, transcode.ModeLA, transcode.ModeRGB, transcode.ModeRGBA,
	transcode.ModeI16, transcode.ModeLA16, transcode.ModeRGB16, transcode.ModeRGBA16,
}

// Pixels draws a picture of one of these modes: smooth, with noise and edges, and here and
// there a sample that nothing predicts. The same arguments give the same picture.
func Pixels(mode transcode.Mode, width, height int) *transcode.Pixels {
	rng := rand.New(rand.NewPCG(uint64(width), uint64(height)<<8|uint64(mode)))
	px := &transcode.Pixels{Width: width, Height: height, Mode: mode}
	if mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	for y := range height {
		for x := range width {
			for c := range mode.Channels() {
				v := 40*c + 3*x + 2*y + rng.IntN(9)
				if (x/17+y/13)%3 == 0 {
					v += 90
				}
				if rng.IntN(500) == 0 {
					v += rng.IntN(256)
				}
				if mode.Depth() == 16 {
					px.Pix = binary.LittleEndian.AppendUint16(px.Pix, uint16(v*211))
				} else {
					px.Pix = append(px.Pix, byte(v))
				}
			}
		}
	}
	return px
}
