package main

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/pipefs/pipefs/internal/pictures"
)

// The pictures of the sets random, black and screen are as large as the paper's.
const fullWidth, fullHeight = 1920, 1080

// generate writes the sets photo, random, black and screen below a directory.
func generate(dir string) error {
	for i := range 8 {
		if err := write(dir, "photo", i, pictures.Photo(768, 512, uint64(i))); err != nil {
			return err
		}
	}
	for set, draw := range map[string]func() image.Image{"random": random, "black": black, "screen": screen} {
		if err := write(dir, set, 0, draw()); err != nil {
			return err
		}
	}
	return nil
}

func write(dir, set string, i int, m image.Image) error {
	dir = filepath.Join(dir, set)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%02d.png", i)))
	if err != nil {
		return err
	}
	if err := png.Encode(f, m); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// black is the picture that compresses best.
func black() image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, fullWidth, fullHeight))
	draw.Draw(m, m.Rect, image.Black, image.Point{}, draw.Src)
	return m
}

// random is a picture that cannot be compressed.
func random() image.Image {
	r := rand.New(rand.NewPCG(1, 2))
	m := image.NewNRGBA(image.Rect(0, 0, fullWidth, fullHeight))
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32())
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	return m
}

// screen looks like a desktop to a codec: flat windows, some of them before others,
// and text without smoothing.
func screen() image.Image {
	r := rand.New(rand.NewPCG(3, 4))
	m := image.NewNRGBA(image.Rect(0, 0, fullWidth, fullHeight))
	fill := func(rect image.Rectangle, c color.Color) {
		draw.Draw(m, rect, image.NewUniform(c), image.Point{}, draw.Src)
	}
	words := strings.Fields(`package import func return range error string byte for if else the of and a to in
		is that each picture patch sample decode encode width height := == != ( ) { } [ ] + 0 1 2 16 255 "…" //`)
	inks := []color.NRGBA{{30, 30, 30, 255}, {160, 30, 40, 255}, {20, 80, 160, 255}, {0, 110, 60, 255}}
	fill(m.Rect, color.NRGBA{58, 110, 165, 255})
	for range 5 {
		x, y := r.IntN(fullWidth/2), r.IntN(fullHeight/2)
		window := image.Rect(x, y, x+600+r.IntN(600), y+300+r.IntN(400)).Intersect(m.Rect)
		fill(window, color.NRGBA{90, 90, 96, 255})
		title := window.Min.Y + 24
		window = window.Inset(1)
		window.Min.Y = title
		fill(window, color.NRGBA{250, 250, 248, 255})
		pen := font.Drawer{Dst: m.SubImage(window).(draw.Image), Face: basicfont.Face7x13}
		for line := window.Min.Y + 16; line < window.Max.Y; line += 16 {
			pen.Dot = fixed.P(window.Min.X+8+28*r.IntN(4), line)
			for range r.IntN(16) {
				pen.Src = image.NewUniform(inks[r.IntN(len(inks))])
				pen.DrawString(words[r.IntN(len(words))] + " ")
			}
		}
	}
	return m
}
