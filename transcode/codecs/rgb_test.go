package codecs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
	"github.com/pipefs/pipefs/transcode/png"
)

// everyMode draws pictures in each mode that a format has. Pillow writes no colours of 16 bits.
const everyMode = `
import os, struct, sys
import numpy as np
from PIL import Image
out = lambda name: os.path.join(sys.argv[1], name)
rng = np.random.default_rng(5)
for w, h in [(1, 1), (7, 5), (64, 48)]:
    a = rng.integers(0, 256, (h, w, 4), dtype=np.uint8)
    deep = rng.integers(0, 65536, (h, w, 4), dtype=np.uint16)
    deep[0, 0] = 128 * 257 + 129, 300, 255, 0
    for mode in ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "PA", "CMYK"]:
        im = Image.fromarray(deep[:, :, 0]) if mode == "I;16" else Image.fromarray(a, "RGBA").convert(mode)
        for ext in ["png", "bmp", "gif", "tif", "webp", "ppm", "jpg"]:
            for how in [{}, {"transparency": 3}, {"transparency": bytes([0, 128, 255])}, {"transparency": (1, 2, 3)}, {"append_images": [im], "save_all": True}]:
                name = out(f"{w}_{mode.replace(';', '')}_{'_'.join(how)}{len(str(how))}.{ext}")
                try:
                    im.save(name, **how)
                except Exception:
                    os.path.exists(name) and os.remove(name)
    for maxval in [1, 100, 255, 1000, 65535]:
        for magic, n in [(b"P5", 1), (b"P6", 3)]:
            v = (deep[:, :, :n] % (maxval + 1)).astype(">u2" if maxval > 255 else "u1")
            open(out(f"{w}_{maxval}_{n}.ppm"), "wb").write(b"%s %d %d %d\n" % (magic, w, h, maxval) + v.tobytes())
    for n in (3, 4):
        values = deep[:, :, :n].astype("<u2").tobytes()
        tags = [(256, 3, 1, w), (257, 3, 1, h), (258, 3, n, 8), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 1, 16),
                (277, 3, 1, n), (278, 3, 1, h), (279, 4, 1, len(values))] + [(338, 3, 1, 2)] * (n == 4)
        ifd = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4)
        head = struct.pack("<2sHI", b"II", 42, 16 + len(values)) + struct.pack("<4H", 16, 16, 16, 16)
        open(out(f"{w}_deep_{n}.tif"), "wb").write(head + values + ifd)
`

// TestRGB wants the step rgb to give what ImageFolder's loader gives,
// Image.open(path).convert("RGB"), of every format and mode.
func TestRGB(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	paths := pillow.Generate(t, everyMode)
	for _, path := range testenv.Pictures(t, "*") {
		if filepath.Ext(path) != ".l3" { // Pillow reads none
			paths = append(paths, path)
		}
	}
	var deep [][]byte
	for _, m := range []transcode.Mode{transcode.ModeLA16, transcode.ModeRGB16, transcode.ModeRGBA16} {
		b, err := png.Encode(t.Context(), pillow.Sample(m, 17, 33))
		testenv.Must(t, err)
		deep = append(deep, b)
	}
	paths = append(paths, pillow.Write(t, "png", deep)...)
	view := func(spec string) transcode.Pipeline {
		v, err := r.Parse(spec)
		testenv.Must(t, err)
		return v
	}
	seen := map[transcode.Mode]int{}
	for path, want := range pillow.OpenRGB(t, paths...) {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		info, err := r.ProbeBytes(src)
		if err != nil || info.Mode == transcode.ModeNone {
			continue // of a flavour that no codec reads
		}
		seen[info.Mode]++
		plan := r.Plan(view("rgb-npy"), info, transcode.Auto)
		got, err := plan.Run(t.Context(), src)
		if array, ok := plan.Array(); err != nil || !ok || array.Mode != transcode.ModeRGB || !bytes.Equal(got[transcode.ArrayHeaderSize:], want) {
			t.Errorf("%s, a %v of mode %v, transparent %v: other pixels than Pillow's, %v", filepath.Base(path), info.Format, info.Mode, info.Transparent, err)
		}
		if one := r.Plan(view("npy"), info, transcode.Auto); info.Mode == transcode.ModeRGB && !info.Transparent && !info.Animated && plan.Key() != one.Key() {
			t.Errorf("%s is RGB and would be stored twice: as %s and as %s", filepath.Base(path), plan.Key(), one.Key())
		}
		// All files have three channels, in every view that rgb begins.
		for _, spec := range []string{"rgb-bmp", "rgb-resize9-ppm", "rgb-crop8-chw-npy", "rgb-png", "rgb-jpeg90", "half-rgb-npy"} {
			plan := r.Plan(view(spec), info, transcode.Auto)
			made, err := plan.Run(t.Context(), src)
			if out := plan.Out(); err != nil || out.Mode != transcode.ModeRGB || out.Type != transcode.Uint8 || plan.Spared() {
				t.Errorf("%s of %s: mode %v of %d bytes, %v", spec, filepath.Base(path), out.Mode, len(made), err)
			}
		}
	}
	for m := transcode.ModeBit; m <= transcode.ModeRGBA16; m++ {
		if seen[m] == 0 {
			t.Errorf("no file of mode %v was compared", m)
		}
	}
	t.Logf("compared %v", seen)
}
