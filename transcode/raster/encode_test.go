package raster

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// exif6 is a TIFF structure that says orientation 6, and nothing else.
const exif6 = "II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"

// metadata prints what Pillow finds in files.
const metadata = `
import sys
from PIL import Image
for path in sys.argv[1:]:
    im = Image.open(path)
    im.load()
    icc = im.info.get("icc_profile") or b""
    print(im.mode, im.size, im.getexif().get(0x112), len(icc), icc[:3], icc[-3:], im.quantization[0][0])
`

// TestJPEGMetadata wants EXIF and ICC profiles, short ones and those of several
// segments, where Pillow looks for them.
func TestJPEGMetadata(t *testing.T) {
	long := append(append([]byte("abc"), make([]byte, 150000)...), "xyz"...)
	var files [][]byte
	var want string
	for _, c := range []struct {
		mode    transcode.Mode
		quality int
		meta    transcode.Metadata
		want    string
	}{
		{transcode.ModeRGB, 90, transcode.Metadata{}, "RGB (17, 33) None 0 b'' b'' 3"},
		{transcode.ModeL, 50, transcode.Metadata{EXIF: []byte(exif6)}, "L (17, 33) 6 0 b'' b'' 16"},
		{transcode.ModeRGB, 100, transcode.Metadata{EXIF: []byte(exif6), ICC: []byte("abcdefxyz")}, "RGB (17, 33) 6 9 b'abc' b'xyz' 1"},
		{transcode.ModeL, 1, transcode.Metadata{ICC: long}, "L (17, 33) None 150006 b'abc' b'xyz' 255"},
		{transcode.ModeRGB, 90, transcode.Metadata{EXIF: make([]byte, 1<<16)}, "RGB (17, 33) None 0 b'' b'' 3"},
	} {
		px := pillow.Sample(c.mode, 17, 33)
		px.Meta = c.meta
		b, err := EncodeJPEG(px, c.quality)
		testenv.Must(t, err)
		files = append(files, b)
		want += c.want + "\n"
	}
	if got := string(pillow.Run(t, metadata, pillow.Write(t, "jpg", files)...)); got != want {
		t.Errorf("Pillow says\n%swant\n%s", got, want)
	}
}

// TestJPEGPixels wants the pixels to be about those that went in.
func TestJPEGPixels(t *testing.T) {
	var files [][]byte
	var pictures []*transcode.Pixels
	for _, m := range []transcode.Mode{transcode.ModeL, transcode.ModeRGB} {
		for _, size := range pillow.Sizes {
			px := pillow.Sample(m, size[0], size[1])
			// Smooth, or 4:2:0 is allowed to change a lot.
			for i := range px.Pix {
				n := m.Channels()
				px.Pix[i] = byte(128 + 60*math.Sin(float64(i/n%px.Width)/9+float64(i/n/px.Width)/11))
			}
			b, err := EncodeJPEG(px, 95)
			testenv.Must(t, err)
			files, pictures = append(files, b), append(pictures, px)
		}
	}
	for i, a := range pillow.Open(t, pillow.Write(t, "jpg", files)...) {
		px := pictures[i]
		name := fmt.Sprintf("%v %dx%d", px.Mode, px.Width, px.Height)
		if a.Mode != px.Mode.String() || len(a.Data) != len(px.Pix) {
			t.Errorf("%s: %s %v %s", name, a.Mode, a.Shape, a.Error)
			continue
		}
		for j, v := range a.Data {
			if d := int(v) - int(px.Pix[j]); d < -8 || d > 8 {
				t.Errorf("%s: value %d is %d, was %d", name, j, v, px.Pix[j])
				break
			}
		}
	}
	for _, m := range []transcode.Mode{transcode.ModeRGBA, transcode.ModeP, transcode.ModeI16} {
		if b, err := EncodeJPEG(pillow.Sample(m, 4, 4), 90); err == nil {
			t.Errorf("%v: %d bytes", m, len(b))
		}
	}
}

// TestGreyFloat wants the weights that everybody writes down.
func TestGreyFloat(t *testing.T) {
	rgba := run(t, Center(), pillow.Sample(transcode.ModeRGBA, 5, 3), 0, false)
	got := run(t, Grey(), rgba, 0, false)
	if got.Mode != transcode.ModeLA || got.Type != transcode.Float32 {
		t.Fatalf("%v %v", got.Mode, got.Type)
	}
	for i := range 15 {
		p, q := rgba.Pix[16*i:], got.Pix[8*i:]
		want := .299*float64(float(p)) + .587*float64(float(p[4:])) + .114*float64(float(p[8:]))
		if d := float64(float(q)) - want; math.Abs(d) > 1e-6 || float(q[4:]) != float(p[12:]) {
			t.Errorf("pixel %d: %v, want %v", i, float(q), want)
		}
	}
	// Centred: grey is linear, so the order of the two steps hardly matters.
	rgb := pillow.Sample(transcode.ModeRGB, 17, 33)
	a := run(t, Center(), run(t, Grey(), rgb, 0, false), 0, false)
	b := run(t, Grey(), run(t, Center(), rgb, 0, false), 0, false)
	for i := 0; i < len(a.Pix); i += 4 {
		if d := float(a.Pix[i:]) - float(b.Pix[i:]); d < -.005 || d > .005 {
			t.Fatalf("value %d: %v and %v", i/4, float(a.Pix[i:]), float(b.Pix[i:]))
		}
	}
}

// TestUprightMetadata wants the result to say that it needs no turning.
func TestUprightMetadata(t *testing.T) {
	px := pillow.Sample(transcode.ModeRGB, 5, 3)
	px.Meta = transcode.Metadata{EXIF: []byte(exif6), Orientation: 6}
	out := run(t, UprightKind(), px, 0, false)
	if out.Width != 3 || out.Height != 5 || out.Meta.Orientation != 1 || transcode.EXIFOrientation(out.Meta.EXIF) != 1 {
		t.Errorf("%dx%d, %+v", out.Width, out.Height, out.Meta)
	}
	if transcode.EXIFOrientation(px.Meta.EXIF) != 6 || !bytes.Equal(px.Meta.EXIF, []byte(exif6)) {
		t.Error("the source's metadata has changed")
	}
}
