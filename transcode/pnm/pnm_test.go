package pnm

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

const generate = `
import os, sys
import numpy as np
out = sys.argv[1]
rng = np.random.default_rng(3)
for w, h in [(1, 1), (1, 7), (5, 3), (17, 33), (64, 48)]:
    def write(name, head, body):
        open(os.path.join(out, f"{w}x{h}_{name}.ppm"), "wb").write(head + body)
    size = b"%d %d" % (w, h)
    write("p4", b"P4\n" + size + b"\n", rng.integers(0, 256, ((w + 7) // 8) * h, dtype=np.uint8).tobytes())
    for maxval in [1, 2, 15, 100, 254, 255, 256, 1000, 1023, 4095, 65534, 65535]:
        top = maxval + 1
        kind = np.uint8 if maxval < 256 else ">u2"
        grey, rgb = rng.integers(0, top, (h, w)), rng.integers(0, top, (h, w, 3))
        m = b"\n%d\n" % maxval
        write(f"p5_{maxval}", b"P5\n" + size + m, grey.astype(kind).tobytes())
        if maxval != 65535: # whose colours Pillow reduces to 8 bits
            write(f"p6_{maxval}", b"P6\n" + size + m, rgb.astype(kind).tobytes())
        if maxval not in (255, 65535):
            over = np.minimum(rng.integers(0, top + top // 2, (h, w)), 255 if maxval < 256 else 65535)
            write(f"p5over_{maxval}", b"P5\n" + size + m, over.astype(kind).tobytes())
    body = rng.integers(0, 256, w * h, dtype=np.uint8).tobytes()
    write("comments", b"P5 # one\n#two\n%d # three\n # four\r %d\n#five\n255 " % (w, h), body)
    write("inside", b"P5\n%d %d\n25#comment\n5\n" % (w, h), body)
    write("blanks", b"P5\t\v\f %d \r\n %d\r255\r" % (w, h), body)
    write("trailing", b"P5\n" + size + b"\n255\n", body + b"more")
    write("short", b"P5\n" + size + b"\n255\n", body[:-1])
    write("short6", b"P6\n" + size + b"\n4095\n", body)
    write("max0", b"P5\n" + size + b"\n0\n", body)
    write("max65536", b"P5\n" + size + b"\n65536\n", body * 2)
    write("letter", b"P5\n" + size + b"\n25x\n", body)
    write("long", b"P5\n" + size + b"\n00000000255\n", body)
`

func TestPillowWrote(t *testing.T) {
	paths := pillow.Generate(t, generate)
	t.Logf("%d files", len(paths))
	pillow.CheckDecoder(t, Decoder{}, paths, nil)
}

var held = []transcode.Mode{transcode.ModeBit, transcode.ModeL, transcode.ModeI16, transcode.ModeRGB, transcode.ModeRGB16}

func TestPillowReads(t *testing.T) {
	var pictures []*transcode.Pixels
	for _, m := range held {
		for _, size := range pillow.Sizes {
			pictures = append(pictures, pillow.Sample(m, size[0], size[1]))
		}
	}
	pillow.CheckEncoder(t, Decoder{}, "ppm", pictures, Encode, Size, func(a *pillow.Array, px *transcode.Pixels) string {
		switch {
		case px.Mode != transcode.ModeRGB16:
			return pillow.Compare(a, px)
		case a.Mode != "RGB": // Pillow reads it as 8 bits
			return a.Mode + " " + a.Error
		}
		return ""
	})
}

func TestRefused(t *testing.T) {
	for _, m := range []transcode.Mode{transcode.ModeLA, transcode.ModeP, transcode.ModeRGBA, transcode.ModeRGBA16, transcode.ModeLA16, transcode.ModeNone} {
		if _, ok := shape(transcode.Shape{Info: transcode.Info{Mode: m, Width: 4, Height: 4}}, 0); ok {
			t.Errorf("%v is accepted", m)
		}
	}
	if _, ok := shape(transcode.Shape{Info: transcode.Info{Mode: transcode.ModeRGB, Width: 4, Height: 4, Transparent: true}}, 0); ok {
		t.Error("a colour key is accepted")
	}
}

func TestHostile(t *testing.T) {
	for head, kind := range map[string]error{
		"P5\n100000 100000\n255\n":         transcode.ErrUnsupported,
		"P5\n9999999999 9999999999\n255\n": transcode.ErrUnsupported,
		"P5\n10000 10000\n255\n":           transcode.ErrTruncated,
		"P3\n1 1\n255\n1 2 3":              transcode.ErrUnsupported,
		"P5\n0 1\n255\n":                   transcode.ErrBad,
		"P5\n-1 1\n255\n":                  transcode.ErrBad,
		"P5\n1 1":                          transcode.ErrTruncated,
		"P7\n1 1\n255\n0":                  transcode.ErrBad,
		"P5 " + string(make([]byte, 100)):  transcode.ErrBad,
		"P5 #" + string(bytes.Repeat([]byte("x"), maxHead)): transcode.ErrUnsupported,
	} {
		_, err := Decoder{}.Decode(context.Background(), []byte(head), transcode.Limits{})
		if !errors.Is(err, kind) {
			t.Errorf("%.40q: %v", head, err)
		}
	}
}

func FuzzPNM(f *testing.F) {
	for _, m := range held {
		b, err := Encode(pillow.Sample(m, 9, 3))
		testenv.Must(f, err)
		f.Add(b)
	}
	f.Add([]byte("P6 2 1 200\n123456"))
	f.Add([]byte("P4 9 1\n12"))
	f.Fuzz(func(t *testing.T, src []byte) {
		lim := transcode.Limits{MaxPixels: 1 << 12}
		codectest.RoundTrip(t, Decoder{}, src, lim, Encode)
	})
}
