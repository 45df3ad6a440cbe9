package pillow

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
)

// Sizes are widths and heights that have caught mistakes: one pixel, one row,
// odd, more than a block of anything.
var Sizes = [][2]int{{1, 1}, {1, 7}, {5, 3}, {17, 33}, {64, 48}}

// Sample makes a picture with something of everything: gradients, noise, the
// extremes. The same arguments give the same picture.
func Sample(m transcode.Mode, width, height int) *transcode.Pixels {
	rng := rand.New(rand.NewPCG(uint64(m), uint64(width<<16+height)))
	px := &transcode.Pixels{Width: width, Height: height, Mode: m}
	if m.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	px.Pix = make([]byte, px.Len())
	channels := m.Channels() * px.Type.Size()
	for i := range px.Pix {
		x, y := i/channels%width, i/channels/width
		v := byte(x*255/width + y + rng.IntN(24) + 40*(i%channels))
		if rng.IntN(5) == 0 {
			v = byte(rng.IntN(2) * 255)
		}
		if m == transcode.ModeBit {
			v &= 1
		}
		px.Pix[i] = v
	}
	if m == transcode.ModeP {
		px.Palette = make([]byte, 4*256)
		for i := range px.Palette {
			px.Palette[i] = byte(rng.IntN(256))
			if i%4 == 3 {
				px.Palette[i] = 255
			}
		}
	}
	return px
}

// Generate runs a Python program with an empty directory as its argument, and
// returns the files that it has left there.
func Generate(t testing.TB, program string) []string {
	t.Helper()
	dir := t.TempDir()
	Run(t, program, dir)
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(paths) == 0 {
		t.Fatal("no files generated")
	}
	return paths
}

// Write writes files with the given contents, named 0.ext and so on, and returns
// their paths.
func Write(t testing.TB, ext string, contents [][]byte) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for i, b := range contents {
		path := filepath.Join(dir, fmt.Sprintf("%d.%s", i, ext))
		testenv.Must(t, os.WriteFile(path, b, 0o644))
		paths = append(paths, path)
	}
	return paths
}

// CheckDecoder compares what d makes of files with what Pillow makes of them.
// ok, if not nil, is asked about each difference: it returns true for one that
// is meant.
func CheckDecoder(t *testing.T, d transcode.Decoder, paths []string, meant func(a *Array, px *transcode.Pixels, err error) bool) {
	t.Helper()
	for _, a := range Open(t, paths...) {
		name := filepath.Base(a.Path)
		src, err := os.ReadFile(a.Path)
		testenv.Must(t, err)
		if !d.Sniff(src[:min(16, len(src))]) {
			t.Errorf("%s: not recognised", name)
			continue
		}
		info, probeErr := d.Probe(strings.NewReader(string(src)), int64(len(src)), transcode.Limits{})
		px, err := d.Decode(t.Context(), src, transcode.Limits{})
		if err == nil && probeErr == nil {
			codectest.Regions(t, d, src, transcode.Limits{}, 6)
		}
		if meant != nil && meant(&a, px, err) {
			continue
		}
		switch {
		case a.Error != "" && err == nil:
			t.Errorf("%s: Pillow refuses it: %s", name, a.Error)
		case a.Error != "":
		case err != nil:
			t.Errorf("%s: %v; Pillow reads %s %v", name, err, a.Mode, a.Shape)
		case probeErr != nil:
			t.Errorf("%s: probe says %v", name, probeErr)
		case info.Mode != px.Mode || info.Width != px.Width || info.Height != px.Height || info.Format != d.Format():
			t.Errorf("%s: probe says %+v, decoded %v %dx%d", name, info, px.Mode, px.Width, px.Height)
		case int(info.Orientation) != a.Orientation:
			t.Errorf("%s: orientation %d, Pillow says %d", name, info.Orientation, a.Orientation)
		case info.Animated != a.Animated:
			t.Errorf("%s: animated is %v, Pillow says %v", name, info.Animated, a.Animated)
		case info.Transparent != a.Transparency:
			t.Errorf("%s: transparency is %v, Pillow says %v", name, info.Transparent, a.Transparency)
		default:
			if difference := Compare(&a, px); difference != "" {
				t.Errorf("%s: %s", name, difference)
			}
		}
	}
}

// CheckEncoder wants Pillow, and d, to read what encode makes of pictures. size, if not nil,
// is what a file is promised to take. differs, if not nil, takes the place of Compare.
func CheckEncoder(t *testing.T, d transcode.Decoder, ext string, pictures []*transcode.Pixels,
	encode func(*transcode.Pixels) ([]byte, error), size func(transcode.Shape) int64, differs func(a *Array, px *transcode.Pixels) string,
) {
	t.Helper()
	if differs == nil {
		differs = Compare
	}
	var files [][]byte
	for _, px := range pictures {
		b, err := encode(px)
		testenv.Must(t, err)
		files = append(files, b)
	}
	for i, a := range Open(t, Write(t, ext, files)...) {
		px := pictures[i]
		name := fmt.Sprintf("%v %dx%d", px.Mode, px.Width, px.Height)
		if difference := differs(&a, px); difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
		if size != nil {
			s := transcode.Shape{Info: transcode.Info{Mode: px.Mode, Width: px.Width, Height: px.Height}, Type: px.Type}
			if want := size(s); want != int64(len(files[i])) {
				t.Errorf("%s: %d bytes, promised %d", name, len(files[i]), want)
			}
		}
		back, err := d.Decode(t.Context(), files[i], transcode.Limits{})
		switch {
		case err != nil || !bytes.Equal(back.Pix, px.Pix) || back.Mode != px.Mode || back.Type != px.Type:
			t.Errorf("%s: read back: %v", name, err)
		case !bytes.Equal(back.Meta.EXIF, px.Meta.EXIF) || !bytes.Equal(back.Meta.ICC, px.Meta.ICC):
			t.Errorf("%s: metadata", name)
		case !bytes.HasPrefix(back.Palette, px.Palette):
			t.Errorf("%s: palette", name)
		}
	}
}
