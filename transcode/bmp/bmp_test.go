package bmp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// generate writes what Pillow saves, and headers of its own around noise.
const generate = `
import os, struct, sys
import numpy as np
from PIL import Image
out = sys.argv[1]
rng = np.random.default_rng(3)

def raw(name, w, h, bits, rows, palette=b"", header=40, compression=0, masks=b"", colours=0, offset=None, flip=False):
    if header == 12:
        info = struct.pack("<IHHHH", 12, w, h, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, w, -h if flip else h, 1, bits, compression, len(rows), 0, 0, colours, 0)
        info += masks if header > 40 else b""
        info += bytes(header - len(info))
    info += masks if header == 40 else b""
    at = 14 + len(info) + len(palette)
    data = b"BM" + struct.pack("<IHHI", at + len(rows), 0, 0, at if offset is None else offset) + info + palette + rows
    open(os.path.join(out, name + ".bmp"), "wb").write(data)

def noise(w, h, bits):
    return rng.integers(0, 256, ((w * bits + 31) // 32 * 4) * h, dtype=np.uint8).tobytes()

ramp = b"".join(bytes([i, i, i, 0]) for i in range(256))
colours = bytes(rng.integers(0, 256, 1024, dtype=np.uint8))
bw = bytes([0, 0, 0, 0, 255, 255, 255, 0])
M = lambda *m: struct.pack("<%dI" % len(m), *m)
for w, h in [(1, 1), (1, 7), (5, 3), (17, 33), (64, 48)]:
    s = f"{w}x{h}"
    for mode in ["1", "L", "P", "RGB", "RGBA"]:
        a = rng.integers(0, 256, (h, w, 4), dtype=np.uint8)
        im = Image.fromarray(a, "RGBA")
        if mode == "P":
            im = Image.fromarray(a[:, :, 0], "L").convert("P")
            im.putpalette(list(colours[:768]))
        else:
            im = im.convert(mode)
        im.save(os.path.join(out, f"{s}_saved_{mode}.bmp"))
    for flip in [False, True]:
        f = s + ("_down" if flip else "")
        raw(f + "_1bw", w, h, 1, noise(w, h, 1), bw, colours=2, flip=flip)
        raw(f + "_1bw0", w, h, 1, noise(w, h, 1), bw, flip=flip)
        raw(f + "_1wb", w, h, 1, noise(w, h, 1), bw[4:] + bw[:4], flip=flip)
        raw(f + "_1col", w, h, 1, noise(w, h, 1), colours[:8], flip=flip)
        raw(f + "_4", w, h, 4, noise(w, h, 4), colours[:64], flip=flip)
        raw(f + "_8", w, h, 8, noise(w, h, 8), colours, flip=flip)
        raw(f + "_8grey", w, h, 8, noise(w, h, 8), ramp, flip=flip)
        raw(f + "_8grey64", w, h, 8, bytes(b & 63 for b in noise(w, h, 8)), ramp[:256], colours=64, flip=flip)
        raw(f + "_8few", w, h, 8, bytes(b & 7 for b in noise(w, h, 8)), colours[:32], colours=8, flip=flip)
        raw(f + "_16", w, h, 16, noise(w, h, 16), flip=flip)
        raw(f + "_24", w, h, 24, noise(w, h, 24), flip=flip)
        raw(f + "_32", w, h, 32, noise(w, h, 32), flip=flip)
        for bits, masks in [(16, (0xF800, 0x7E0, 0x1F)), (16, (0x7C00, 0x3E0, 0x1F)), (24, (0xFF0000, 0xFF00, 0xFF)),
            (32, (0xFF0000, 0xFF00, 0xFF, 0)), (32, (0xFF000000, 0xFF0000, 0xFF00, 0)), (32, (0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
            (32, (0xFF, 0xFF00, 0xFF0000, 0xFF000000)), (32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000)), (32, (0, 0, 0, 0)),
            (32, (0xFF, 0xFF00, 0xFF0000, 0)), (16, (0xF00, 0xF0, 0xF))]:
            name = f"{f}_{bits}_" + "_".join("%x" % m for m in masks)
            raw(name + "_v3", w, h, bits, noise(w, h, bits), compression=3, masks=M(*masks[:3]), flip=flip)
            raw(name + "_v4", w, h, bits, noise(w, h, bits), compression=3, masks=M(*masks), header=108, flip=flip)
            raw(name + "_v5", w, h, bits, noise(w, h, bits), compression=3, masks=M(*masks), header=124, flip=flip)
    raw(s + "_core24", w, h, 24, noise(w, h, 24), header=12)
    raw(s + "_core8", w, h, 8, noise(w, h, 8), colours[:768], header=12)
    raw(s + "_os2", w, h, 24, noise(w, h, 24), header=64)
    raw(s + "_nooffset", w, h, 8, noise(w, h, 8), colours, offset=0)
    raw(s + "_badoffset", w, h, 8, noise(w, h, 8), colours, offset=54)
    raw(s + "_gap", w, h, 24, b"gap" + noise(w, h, 24), offset=57)
    raw(s + "_lastpad", w, h, 24, noise(w, h, 24)[: (h - 1) * ((w * 3 + 3) // 4 * 4) + 3 * w])
    raw(s + "_short", w, h, 24, noise(w, h, 24)[: (h - 1) * ((w * 3 + 3) // 4 * 4) + 3 * w - 1])
    raw(s + "_52", w, h, 24, noise(w, h, 24), header=52)
    raw(s + "_pngin", w, h, 24, noise(w, h, 24), compression=5)
    raw(s + "_2bit", w, h, 2, noise(w, h, 2), colours[:16])
`

func TestPillowWrote(t *testing.T) {
	paths := pillow.Generate(t, generate)
	t.Logf("%d files", len(paths))
	rare := regexp.MustCompile(`_16|_core|_os2|_32_ff_|_32_ff000000_`)
	pillow.CheckDecoder(t, Decoder{}, paths, func(a *pillow.Array, _ *transcode.Pixels, err error) bool {
		return rare.MatchString(filepath.Base(a.Path)) && errors.Is(err, transcode.ErrUnsupported)
	})
}

var held = []transcode.Mode{transcode.ModeBit, transcode.ModeL, transcode.ModeP, transcode.ModeRGB, transcode.ModeRGBA}

// TestPillowReads wants Pillow, and ourselves, to read back what was written.
func TestPillowReads(t *testing.T) {
	var pictures []*transcode.Pixels
	for _, m := range held {
		for _, size := range pillow.Sizes {
			px := pillow.Sample(m, size[0], size[1])
			pictures = append(pictures, px)
			if m == transcode.ModeP {
				short := *px
				short.Palette = px.Palette[:4*3]
				two := *px // which Pillow would take for black and white
				two.Palette = []byte{0, 0, 0, 255, 255, 255, 255, 255}
				ramp := *px // the beginning of what Pillow would take for grey
				ramp.Palette = []byte{0, 0, 0, 255, 1, 1, 1, 255, 2, 2, 2, 255}
				pictures = append(pictures, &short, &two, &ramp)
			}
		}
	}
	pillow.CheckEncoder(t, Decoder{}, "bmp", pictures, Encode, Size, nil)
}

func TestRefused(t *testing.T) {
	for _, m := range []transcode.Mode{transcode.ModeLA, transcode.ModeI16, transcode.ModeRGB16, transcode.ModeRGBA16, transcode.ModeLA16, transcode.ModeNone} {
		s := transcode.Shape{Info: transcode.Info{Mode: m, Width: 4, Height: 4}}
		if _, ok := shape(s, 0); ok {
			t.Errorf("%v is accepted", m)
		}
	}
	for name, s := range map[string]transcode.Shape{
		"a transparent palette": {Info: transcode.Info{Mode: transcode.ModeP, Width: 4, Height: 4, Transparent: true}},
		"float32":               {Info: transcode.Info{Mode: transcode.ModeRGB, Width: 4, Height: 4}, Type: transcode.Float32},
		"more than 4 GiB":       {Info: transcode.Info{Mode: transcode.ModeRGBA, Width: 40000, Height: 40000}},
	} {
		if _, ok := shape(s, 0); ok {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestHostile wants an error, and no memory, for headers that lie.
func TestHostile(t *testing.T) {
	good, err := Encode(pillow.Sample(transcode.ModeRGB, 17, 33))
	testenv.Must(t, err)
	for name, c := range map[string]struct {
		at    int
		value uint32
		kind  error
	}{
		"huge":          {18, 1 << 30, transcode.ErrUnsupported},
		"width 0":       {18, 0, transcode.ErrBad},
		"width -1":      {18, 0xffffffff, transcode.ErrBad},
		"least height":  {22, 0x80000000, transcode.ErrUnsupported},
		"wide":          {18, 10000, transcode.ErrTruncated},
		"far":           {10, 0xffffff00, transcode.ErrTruncated},
		"no bits":       {28, 0, transcode.ErrUnsupported},
		"header size":   {14, 41, transcode.ErrUnsupported},
		"long header":   {14, 124, transcode.ErrTruncated},
		"not the magic": {0, 0, transcode.ErrBad},
	} {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[c.at:], c.value)
		if name == "long header" {
			b = b[:80]
		}
		_, err := Decoder{}.Decode(context.Background(), b, transcode.Limits{})
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := (Decoder{}).Probe(bytes.NewReader(b), int64(len(b)), transcode.Limits{}); !errors.Is(err, c.kind) {
			t.Errorf("%s: probe: %v", name, err)
		}
	}
	for n := range good {
		if _, err := (Decoder{}).Decode(context.Background(), good[:n], transcode.Limits{}); err == nil && n < len(good)-1 {
			t.Fatalf("accepted after %d of %d bytes", n, len(good))
		}
	}
}

func FuzzBMP(f *testing.F) {
	for _, m := range held {
		b, err := Encode(pillow.Sample(m, 17, 5))
		testenv.Must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		lim := transcode.Limits{MaxPixels: 1 << 16}
		codectest.RoundTrip(t, Decoder{}, src, lim, Encode)
	})
}
