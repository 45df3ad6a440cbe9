package webp

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
exif = Image.Exif()
exif[0x112] = 6
for w, h in [(1, 1), (1, 7), (2, 2), (5, 3), (17, 33), (64, 48), (300, 201)]:
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([127 + 120 * np.sin(x / (3 + 2 * c) + y / (5 + c)) + rng.normal(0, 9, (h, w)) for c in range(4)], -1)
    im = Image.fromarray(np.clip(a, 0, 255).astype(np.uint8), "RGBA")
    rgb = im.convert("RGB")
    save = lambda im, name, **k: im.save(os.path.join(out, f"{w}x{h}_{name}.webp"), **k)
    for q in (1, 20, 50, 75, 90, 100):
        save(rgb, f"lossy{q}", quality=q)
        save(im, f"lossyalpha{q}", quality=q)
    save(im, "lossyalpha_low", quality=50, alpha_quality=10)
    opaque = im.copy()
    opaque.putalpha(255)
    save(opaque, "opaque")
    save(opaque, "opaquelossless", lossless=True)
    save(rgb, "lossless", lossless=True)
    save(im, "losslessalpha", lossless=True, exact=True)
    save(im, "losslessinexact", lossless=True)
    save(rgb.quantize(5).convert("RGB"), "losslessfew", lossless=True)
    save(rgb, "exif", exif=exif.tobytes(), icc_profile=b"x" * 300)
    save(im, "exiflossless", exif=exif.tobytes(), lossless=True)
    save(rgb, "anim", save_all=True, append_images=[rgb.transpose(0), rgb.transpose(1)])
`

func TestPhotographs(t *testing.T) {
	dir := t.TempDir()
	pillow.Run(t, `
import os, sys
from PIL import Image
for path in sys.argv[2:]:
    Image.open(path).save(os.path.join(sys.argv[1], os.path.basename(path) + ".webp"), quality=80, method=2)
`, append([]string{dir}, testenv.Shared(t, "bsds/*.jpg")[:12]...)...)
	paths, _ := filepath.Glob(filepath.Join(dir, "*.webp"))
	if len(paths) != 12 {
		t.Errorf("%d files", len(paths))
	}
	pillow.CheckDecoder(t, Decoder{}, paths, nil)
}

func TestPillowWrote(t *testing.T) {
	paths := pillow.Generate(t, generate)
	pillow.CheckDecoder(t, Decoder{}, paths, func(a *pillow.Array, px *transcode.Pixels, err error) bool {
		return strings.Contains(a.Path, "_anim") && a.Animated && errors.Is(err, transcode.ErrUnsupported)
	})
	for _, path := range paths {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		info, err := Decoder{}.Probe(bytes.NewReader(src), int64(len(src)), transcode.Limits{})
		if strings.Contains(path, "48_anim") && (err != nil || !info.Animated || info.Mode != transcode.ModeNone) {
			t.Errorf("%s: %+v, %v", filepath.Base(path), info, err)
		}
		if strings.Contains(path, "64x48") {
			for _, n := range []int{len(src) / 2, len(src) - 2, 20} {
				if _, err := (Decoder{}).Decode(context.Background(), src[:n], transcode.Limits{}); err == nil && !strings.Contains(path, "exif") {
					t.Errorf("%s: accepted after %d of %d bytes", filepath.Base(path), n, len(src))
				}
			}
		}
	}
}

func FuzzWebP(f *testing.F) {
	f.Add([]byte("RIFF\x14\x00\x00\x00WEBPVP8L\x08\x00\x00\x00\x2f\x00\x00\x00\x00\x88\x88\x08"))
	f.Fuzz(func(t *testing.T, src []byte) {
		codectest.RoundTrip(t, Decoder{}, src, transcode.Limits{MaxPixels: 1 << 12}, nil)
	})
}
