package tiff

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
for w, h in [(1, 1), (1, 7), (5, 3), (17, 33), (64, 48), (200, 150)]:
    a = rng.integers(0, 256, (h, w, 4), dtype=np.uint8)
    a[h // 2 :] = (np.mgrid[0 : h - h // 2, 0:w].sum(0) % 256).astype(np.uint8)[:, :, None]
    for mode in ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"]:
        if mode == "I;16":
            im = Image.fromarray(rng.integers(0, 65536, (h, w), dtype=np.uint16))
        elif mode == "P":
            im = Image.fromarray(a[:, :, 0]).convert("P")
            im.putpalette(list(rng.integers(0, 256, 768)))
        elif mode in ("I", "F"):
            im = Image.fromarray(a[:, :, 0].astype(np.int32 if mode == "I" else np.float32))
        else:
            im = Image.fromarray(a, "RGBA").convert(mode)
        for compression in [None, "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "jpeg", "group3", "group4"]:
            for tag in [{}, {317: 2}, {278: 5}]:
                name = f"{w}x{h}_{mode}_{compression}_{'_'.join(map(str, tag))}.tif"
                try:
                    im.save(os.path.join(out, name), compression=compression, tiffinfo=tag)
                except Exception:
                    if os.path.exists(os.path.join(out, name)):
                        os.remove(os.path.join(out, name))
    im = Image.fromarray(a, "RGBA").convert("RGB")
    im.save(os.path.join(out, f"{w}x{h}_pages.tif"), save_all=True, append_images=[im])
    for o in range(1, 9):
        im.save(os.path.join(out, f"{w}x{h}_orientation{o}.tif"), tiffinfo={274: o})
`

func TestPillowWrote(t *testing.T) {
	paths := pillow.Generate(t, generate)
	same, left := 0, 0
	pillow.CheckDecoder(t, Decoder{}, paths, func(a *pillow.Array, px *transcode.Pixels, err error) bool {
		name := filepath.Base(a.Path)
		if err == nil {
			same++
			return false
		}
		left++
		src, readErr := os.ReadFile(a.Path)
		if readErr != nil {
			t.Fatal(readErr)
		}
		info, probeErr := Decoder{}.Probe(bytes.NewReader(src), int64(len(src)), transcode.Limits{})
		if probeErr != nil || info.Mode != transcode.ModeNone {
			t.Errorf("%s: decoding says %v, probing %v %v", name, err, info.Mode, probeErr)
		}
		for _, must := range []string{"_RGB_None", "_L_", "_P_tiff_lzw", "_I;16_tiff_adobe", "_1_packbits", "_RGBA_packbits"} {
			if strings.Contains(name, must) && !strings.Contains(name, "jpeg") && !strings.Contains(name, "_317") {
				t.Errorf("%s: %v", name, err)
			}
		}
		return true
	})
	t.Logf("%d files read as Pillow reads them, %d left alone", same, left)
}

func FuzzTIFF(f *testing.F) {
	f.Add([]byte("II*\x00\x08\x00\x00\x00\x07\x00" +
		"\x00\x01\x03\x00\x01\x00\x00\x00\x02\x00\x00\x00" + "\x01\x01\x03\x00\x01\x00\x00\x00\x01\x00\x00\x00" +
		"\x02\x01\x03\x00\x01\x00\x00\x00\x08\x00\x00\x00" + "\x03\x01\x03\x00\x01\x00\x00\x00\x01\x00\x00\x00" +
		"\x06\x01\x03\x00\x01\x00\x00\x00\x01\x00\x00\x00" + "\x11\x01\x04\x00\x01\x00\x00\x00\x08\x00\x00\x00" +
		"\x17\x01\x04\x00\x01\x00\x00\x00\x02\x00\x00\x00" + "\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, src []byte) {
		codectest.RoundTrip(t, Decoder{}, src, transcode.Limits{MaxPixels: 1 << 12}, nil)
	})
}
