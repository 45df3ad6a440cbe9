package png

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// generate writes every combination of depth, colour type, filter and
// interlacing, chunk by chunk, and what Pillow saves.
const generate = `
import os, struct, sys, zlib
import numpy as np
from PIL import Image, PngImagePlugin
out = sys.argv[1]
rng = np.random.default_rng(3)

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def rows(w, h, bits):
    n = (w * bits + 7) // 8
    if w == 0 or h == 0:
        return b""
    return b"".join(bytes([int(rng.integers(0, 5))]) + rng.integers(0, 256, n, dtype=np.uint8).tobytes() for _ in range(h))

PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]

def png(name, w, h, depth, colour, before=b"", interlace=0, parts=1, after=b"", end=None):
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    if interlace:
        raw = b"".join(rows((w - x + dx - 1) // dx, (h - y + dy - 1) // dy, bits) for x, y, dx, dy in PASSES)
    else:
        raw = rows(w, h, bits)
    z = zlib.compress(raw)
    step = max(1, len(z) // parts)
    idat = b"".join(chunk(b"IDAT", z[i : i + step]) for i in range(0, len(z), step))
    if parts > 1:
        idat += chunk(b"IDAT", b"")
    b = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlace)) + before + idat + after
    open(os.path.join(out, name + ".png"), "wb").write(b + (chunk(b"IEND", b"") if end is None else end))

def exif(order, value):
    b = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IHHHIHHI", 8, 1, 0x112, 3, 1, value, 0, 0)
    return chunk(b"eXIf", b)

plte = lambda n: chunk(b"PLTE", rng.integers(0, 256, 3 * n, dtype=np.uint8).tobytes())
for w, h in [(1, 1), (1, 7), (5, 3), (17, 33), (64, 48)]:
    s = f"{w}x{h}"
    for colour, depths in [(0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16))]:
        for depth in depths:
            for interlace in (0, 1):
                before = plte(1 << depth) if colour == 3 else b""
                png(f"{s}_{colour}_{depth}_{interlace}", w, h, depth, colour, before, interlace)
                if colour == 3:
                    alpha = rng.integers(0, 256, 1 << (depth - 1), dtype=np.uint8).tobytes()
                    png(f"{s}_{colour}_{depth}_{interlace}_trns", w, h, depth, colour, before + chunk(b"tRNS", alpha), interlace)
            if colour in (0, 2) and (colour, depth) != (0, 1):
                png(f"{s}_{colour}_{depth}_key", w, h, depth, colour, chunk(b"tRNS", bytes(2 if colour == 0 else 6)))
    png(f"{s}_parts", w, h, 8, 2, parts=7)
    png(f"{s}_bkgd", w, h, 8, 2, chunk(b"bKGD", bytes(6)) + chunk(b"tEXt", b"a\0b") + plte(5))
    png(f"{s}_exif3", w, h, 8, 2, exif("<", 3))
    png(f"{s}_exif6", w, h, 8, 0, exif(">", 6))
    png(f"{s}_exif8after", w, h, 8, 6, after=exif(">", 8))
    png(f"{s}_actl1", w, h, 8, 2, chunk(b"acTL", struct.pack(">II", 1, 0)))
    png(f"{s}_fewcolours", w, h, 8, 3, plte(200))
    png(f"{s}_onecolour", w, h, 1, 3, plte(1))
    for mode in ["1", "L", "LA", "P", "RGB", "RGBA", "I"]:
        a = rng.integers(0, 256, (h, w, 4), dtype=np.uint8)
        if mode == "I":
            im = Image.fromarray(rng.integers(0, 65536, (h, w), dtype=np.int32), "I")
        elif mode == "P":
            im = Image.fromarray(a[:, :, 0] // 3, "L").convert("P")
            im.putpalette(list(range(255)))
        else:
            im = Image.fromarray(a, "RGBA").convert(mode)
        im.save(os.path.join(out, f"{s}_saved_{mode}.png"))
        if mode == "P":
            im.save(os.path.join(out, f"{s}_saved_{mode}t.png"), transparency=3)
        if mode == "RGBA":
            im.save(os.path.join(out, f"{s}_saved_anim.png"), save_all=True, append_images=[im.transpose(0), im.transpose(1)])
png("noend", 64, 48, 8, 2, end=b"")
`

// TestPillowWrote compares with Pillow, which has no name for some modes: those
// of 16 bits it reads by their high bytes.
func TestPillowWrote(t *testing.T) {
	paths := pillow.Generate(t, generate)
	t.Logf("%d files", len(paths))
	high := 0
	pillow.CheckDecoder(t, Decoder{}, paths, func(a *pillow.Array, px *transcode.Pixels, err error) bool {
		if err != nil || a.Error != "" {
			return false
		}
		name := filepath.Base(a.Path)
		switch px.Mode {
		case transcode.ModeRGB16, transcode.ModeRGBA16:
			for i, v := range a.Data {
				if px.Pix[2*i+1] != v {
					t.Errorf("%s: value %d", name, i)
					return true
				}
			}
		case transcode.ModeLA16:
			for i := 0; i < len(px.Pix)/4; i++ {
				if px.Pix[4*i+1] != a.Data[4*i] || px.Pix[4*i+3] != a.Data[4*i+3] {
					t.Errorf("%s: pixel %d", name, i)
					return true
				}
			}
		default:
			return false
		}
		high++
		return true
	})
	if high < 30 {
		t.Errorf("%d files of 16 bits compared by their high bytes", high)
	}
}

// TestPhotographs compares real files with Pillow.
func TestPhotographs(t *testing.T) {
	paths := testenv.Shared(t, "kodak/*.png")
	pillow.CheckDecoder(t, Decoder{}, paths[:min(8, len(paths))], nil)
}

// TestPillowReads wants Pillow, and ourselves, to read back what was written.
func TestPillowReads(t *testing.T) {
	var pictures []*transcode.Pixels
	for m := transcode.ModeBit; m <= transcode.ModeRGBA16; m++ {
		for _, size := range pillow.Sizes {
			px := pillow.Sample(m, size[0], size[1])
			px.Meta.EXIF = []byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00")
			px.Meta.ICC = bytes.Repeat([]byte("profile"), 50)
			pictures = append(pictures, px)
			if m == transcode.ModeP {
				short, clear := *px, *px
				short.Palette = px.Palette[:4*3]
				clear.Palette = bytes.Clone(px.Palette)
				for i := range 5 {
					clear.Palette[16*i+3] = byte(50 * i)
				}
				pictures = append(pictures, &short, &clear)
			}
		}
	}
	pillow.CheckEncoder(t, Decoder{}, "png", pictures, encode, nil, func(a *pillow.Array, px *transcode.Pixels) string {
		switch px.Mode {
		case transcode.ModeRGB16, transcode.ModeRGBA16, transcode.ModeLA16:
			if a.Error != "" {
				return a.Error
			}
		default:
			if difference := pillow.Compare(a, px); difference != "" {
				return difference
			}
		}
		if a.Orientation != 6 {
			return fmt.Sprintf("orientation %d", a.Orientation)
		}
		return ""
	})
}

func encode(px *transcode.Pixels) ([]byte, error) { return Encode(context.Background(), px) }

func TestRefused(t *testing.T) {
	for name, s := range map[string]transcode.Shape{
		"a colour key": {Info: transcode.Info{Mode: transcode.ModeRGB, Width: 4, Height: 4, Transparent: true}},
		"float32":      {Info: transcode.Info{Mode: transcode.ModeRGB, Width: 4, Height: 4}, Type: transcode.Float32},
		"no mode":      {Info: transcode.Info{Width: 4, Height: 4}},
	} {
		if _, ok := shape(s, 0); ok {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, ok := shape(transcode.Shape{Info: transcode.Info{Mode: transcode.ModeP, Width: 4, Height: 4, Transparent: true}}, 0); !ok {
		t.Error("a transparent palette is refused")
	}
}

// TestDamage wants every truncation and every flipped byte noticed, or harmless.
func TestDamage(t *testing.T) {
	px := pillow.Sample(transcode.ModeP, 17, 33)
	px.Palette[7] = 9
	good, err := Encode(t.Context(), px)
	testenv.Must(t, err)
	for n := range good {
		got, err := Decoder{}.Decode(context.Background(), good[:n], transcode.Limits{})
		if err == nil && !bytes.Equal(got.Pix, px.Pix) {
			t.Fatalf("%d of %d bytes: other pixels", n, len(good))
		}
		if err != nil && !errors.Is(err, transcode.ErrTruncated) && n >= 8 {
			t.Fatalf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		got, err := Decoder{}.Decode(context.Background(), b, transcode.Limits{})
		if err == nil && !(bytes.Equal(got.Pix, px.Pix) && bytes.Equal(got.Palette, px.Palette)) {
			t.Fatalf("byte %d flipped: other pixels", i)
		}
	}
}

// TestHostile wants errors and little memory for headers that promise more than
// there is.
func TestHostile(t *testing.T) {
	header := func(w, h uint32) []byte {
		var out bytes.Buffer
		out.WriteString(signature)
		writeChunk(&out, "IHDR", []byte{byte(w >> 24), byte(w >> 16), byte(w >> 8), byte(w), byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h), 8, 2, 0, 0, 0})
		writeChunk(&out, "IDAT", []byte{0x78, 0x9c, 3, 0, 0, 0, 0, 1})
		writeChunk(&out, "IEND", nil)
		return out.Bytes()
	}
	for _, c := range []struct {
		w, h uint32
		kind error
	}{
		{65535, 65535, transcode.ErrUnsupported},
		{1<<31 - 1, 1<<31 - 1, transcode.ErrUnsupported},
		{1 << 31, 1, transcode.ErrBad},
		{0, 1, transcode.ErrBad},
		{14000, 14000, transcode.ErrTruncated},
		{1, 1, transcode.ErrTruncated},
	} {
		b := header(c.w, c.h)
		if _, err := (Decoder{}).Decode(context.Background(), b, transcode.Limits{}); !errors.Is(err, c.kind) {
			t.Errorf("%dx%d: %v", c.w, c.h, err)
		}
	}
	// A bomb: more pixels in the stream than the header says are not read.
	px := pillow.Sample(transcode.ModeL, 1, 1)
	b, err := Encode(t.Context(), px)
	testenv.Must(t, err)
	if _, err := (Decoder{}).Probe(bytes.NewReader(b), int64(len(b)), transcode.Limits{}); err != nil {
		t.Error(err)
	}
	if _, err := (Decoder{}).Decode(context.Background(), append(b[:len(b)-12:len(b)-12], "\x00\x00\x00\x00ABCD\x00\x00\x00\x00"...), transcode.Limits{}); err == nil {
		t.Error("a critical chunk with a wrong CRC is accepted")
	}
}

// TestRegionOfDamaged: a region is refused where the whole picture is, for every file that is
// cut short or has a wrong byte. Pixels that were wrong before the CRC was computed are not
// noticed where the region does not need them.
func TestRegionOfDamaged(t *testing.T) {
	b, err := Encode(t.Context(), pillow.Sample(transcode.ModeRGB, 17, 33))
	testenv.Must(t, err)
	info, err := Decoder{}.Probe(bytes.NewReader(b), int64(len(b)), transcode.Limits{})
	testenv.Must(t, err)
	top := image.Rect(2, 3, 10, 9)
	both := func(src []byte) (whole, region error) {
		_, whole = Decoder{}.Decode(t.Context(), src, transcode.Limits{})
		_, region = Decoder{}.DecodeRegion(t.Context(), src, transcode.Limits{}, info, top)
		return whole, region
	}
	for i := range b {
		wrong := bytes.Clone(b)
		wrong[i] ^= 1
		for name, src := range map[string][]byte{"cut off": b[:i], "damaged": wrong} {
			if whole, region := both(src); (whole == nil) != (region == nil) && !errors.Is(region, transcode.ErrInternal) {
				t.Errorf("%s at byte %d: %v, a region %v", name, i, whole, region)
			}
		}
	}
	end := bytes.Index(b, []byte("IEND")) - 4
	b[end-5] ^= 1 // of the stream's checksum
	mend(b)
	if whole, region := both(b); !errors.Is(whole, transcode.ErrBad) || region != nil {
		t.Errorf("a wrong checksum of the stream: %v, a region %v", whole, region)
	}
	info.Height = 12
	if _, err := (Decoder{}).DecodeRegion(t.Context(), b, transcode.Limits{}, info, top); err == nil {
		t.Error("a picture of another height")
	}
}

// mend writes the right CRC behind each chunk, so that fuzzing gets past them.
func mend(b []byte) {
	for b = b[min(len(b), len(signature)):]; len(b) >= 12; {
		n := int64(binary.BigEndian.Uint32(b))
		if n > int64(len(b)-12) {
			return
		}
		binary.BigEndian.PutUint32(b[8+n:], crc32.ChecksumIEEE(b[4:8+n]))
		b = b[12+n:]
	}
}

func FuzzPNG(f *testing.F) {
	for m := transcode.ModeBit; m <= transcode.ModeRGBA16; m++ {
		b, err := Encode(context.Background(), pillow.Sample(m, 9, 5))
		testenv.Must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		lim := transcode.Limits{MaxPixels: 1 << 12}
		src = bytes.Clone(src)
		mend(src)
		codectest.RoundTrip(t, Decoder{}, src, lim, encode)
	})
}

func BenchmarkDecode(b *testing.B) {
	src, err := os.ReadFile(testenv.Shared(b, "kodak/01.png")[0])
	testenv.Must(b, err)
	codectest.BenchmarkDecode(b, Decoder{}, src, 768*512*3)
}
