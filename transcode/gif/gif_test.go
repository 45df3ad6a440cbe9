package gif

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

const generate = `
import os, sys
import numpy as np
from PIL import Image
out = sys.argv[1]
rng = np.random.default_rng(3)
for w, h in [(1, 1), (1, 7), (5, 3), (17, 33), (64, 48), (300, 200)]:
    a = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
    smooth = (np.mgrid[0:h, 0:w].sum(0) % 256).astype(np.uint8)
    save = lambda im, name, **k: im.save(os.path.join(out, f"{w}x{h}_{name}.gif"), **k)
    rgb, grey, bit = Image.fromarray(a), Image.fromarray(smooth), Image.fromarray(smooth).convert("1")
    few = Image.fromarray(a[:, :, 0] & 7).convert("P")
    few.putpalette(list(rng.integers(0, 256, 24)))
    for interlace in (0, 1):
        save(rgb.convert("P", palette=Image.ADAPTIVE), f"rgb{interlace}", interlace=interlace)
        save(grey, f"grey{interlace}", interlace=interlace)
        save(bit, f"bit{interlace}", interlace=interlace)
        save(few, f"few{interlace}", interlace=interlace)
        save(few, f"trns{interlace}", interlace=interlace, transparency=3)
        save(grey, f"greytrns{interlace}", interlace=interlace, transparency=3)
    save(few, "anim", save_all=True, append_images=[few.transpose(0), few.transpose(1)])
    save(few, "comment", comment=b"x" * 700)
    # a frame that covers a part of the screen only
    for name, k in [("part", {}), ("parttrns", {"transparency": 5})]:
        path = os.path.join(out, f"{w}x{h}_{name}.gif")
        few.save(path, **k)
        b = bytearray(open(path, "rb").read())
        b[6:10] = bytes([(w + 3) & 255, (w + 3) >> 8, (h + 2) & 255, (h + 2) >> 8])
        at = b.index(b",\0\0\0\0" + bytes([w & 255, w >> 8]))
        b[at + 1] = 2
        b[at + 3] = 1
        open(path, "wb").write(b)
`

func TestPillowWrote(t *testing.T) {
	paths := pillow.Generate(t, generate)
	t.Logf("%d files", len(paths))
	pillow.CheckDecoder(t, Decoder{}, paths, nil)
}

// oddGenerate writes GIFs whose codes have lengths that the format forbids, with strings and repeated clears.
const oddGenerate = `
import os, random, sys
out = sys.argv[1]
for bits in (0, 1, 9, 10, 11, 12):
    for seed in range(4):
        r = random.Random(100 * bits + seed)
        w, h = r.choice([(100, 100), (64, 31), (1, 5)])
        pixels = [r.randrange(min(1 << bits, [3, 300, 1 << 12][seed % 3])) for _ in range(w * h)]
        if seed % 2:
            pixels = [pixels[i // 7] for i in range(w * h)]
        clear, acc, have, data = 1 << bits, 0, 0, bytearray()
        def put(code):
            global acc, have
            acc |= code << have
            have += size
            while have >= 8:
                data.append(acc & 255)
                acc >>= 8
                have -= 8
        size, table, nxt, word = bits + 1, {}, clear + 2, ()
        put(clear)
        for p in pixels:
            if not word or word + (p,) in table:
                word += (p,)
                continue
            put(table[word] if len(word) > 1 else word[0])
            if nxt < 4096:
                table[word + (p,)] = nxt
                # the reader is one code behind
                if nxt == 1 << size and size < 12:
                    size += 1
                nxt += 1
            elif seed == 3:
                put(clear)
                size, table, nxt = bits + 1, {}, clear + 2
            word = (p,)
        put(table[word] if len(word) > 1 else word[0])
        if nxt == 1 << size and size < 12:
            size += 1
        put(clear + 1)
        size = 8
        put(0)
        f = bytearray(b"GIF89a") + w.to_bytes(2, "little") + h.to_bytes(2, "little") + b"\xf7\0\0"
        f += bytes(r.randrange(256) for _ in range(768))
        f += b",\0\0\0\0" + w.to_bytes(2, "little") + h.to_bytes(2, "little") + b"\0" + bytes([bits])
        for i in range(0, len(data), 255):
            f += bytes([len(data[i:i + 255])]) + data[i:i + 255]
        open(os.path.join(out, f"{bits}-{seed}.gif"), "wb").write(f + b"\0;")
`

// TestCodeLengths: pixels of lengths that the format forbids, and that Pillow reads.
func TestCodeLengths(t *testing.T) {
	pillow.CheckDecoder(t, Decoder{}, pillow.Generate(t, oddGenerate), nil)
	file := []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x0d\x02\x44\x01\x00;")
	if _, err := (Decoder{}).Probe(bytes.NewReader(file), int64(len(file)), transcode.Limits{}); !errors.Is(err, transcode.ErrBad) {
		t.Errorf("pixels of 13 bits: %v", err)
	}
}

func TestTruncated(t *testing.T) {
	paths := pillow.Generate(t, generate)
	src, err := os.ReadFile(paths[len(paths)-1])
	testenv.Must(t, err)
	for n := 0; n < len(src)-300; n += 17 {
		if _, err := (Decoder{}).Decode(context.Background(), src[:n], transcode.Limits{}); err == nil || n > 6 && !errors.Is(err, transcode.ErrTruncated) && !errors.Is(err, transcode.ErrBad) {
			t.Fatalf("%d of %d bytes: %v", n, len(src), err)
		}
	}
}

func FuzzGIF(f *testing.F) {
	f.Add([]byte("GIF89a\x02\x00\x01\x00\x80\x00\x00\x01\x02\x03\x04\x05\x06!\xf9\x04\x01\x00\x00\x01\x00,\x00\x00\x00\x00\x02\x00\x01\x00\x00\x02\x02\x44\x0a\x00;"))
	f.Fuzz(func(t *testing.T, src []byte) {
		codectest.RoundTrip(t, Decoder{}, src, transcode.Limits{MaxPixels: 1 << 12}, nil)
	})
}
