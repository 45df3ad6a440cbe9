package jpeg

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// checkAll compares pixels with Pillow's.
func checkAll(t *testing.T, paths []string) {
	t.Helper()
	want := pillow.OpenRGB(t, paths...)
	for _, path := range paths {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		name := filepath.Base(path)
		px, err := Decoder{}.Decode(context.Background(), src, transcode.Limits{})
		if err != nil {
			if want[path] != nil && !strings.Contains(name, "arithmetic") {
				t.Errorf("%s: %v, Pillow reads it", name, err)
			}
			continue
		}
		if want[path] == nil {
			t.Errorf("%s: Pillow refuses it", name)
		} else if !bytes.Equal(px.Pix, want[path]) {
			t.Errorf("%s: not the pixels of Pillow", name)
		}
		info, err := Decoder{}.Probe(bytes.NewReader(src), int64(len(src)), transcode.Limits{})
		if err != nil || info.Width != px.Width || info.Height != px.Height || info.Mode != px.Mode {
			t.Errorf("%s: probe says %+v, %v", name, info, err)
		}
	}
}

// generate writes JPEG files of every flavour that cjpeg and Pillow know.
const generate = `
import io, os, subprocess, sys
import numpy as np
from PIL import Image
out = sys.argv[1]
rng = np.random.default_rng(7)

def picture(w, h, channels):
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([127 + 100 * np.sin(x / (3 + 2 * c) + y / (5 + c)) + rng.normal(0, 12, (h, w)) for c in range(channels)], -1)
    return np.clip(a, 0, 255).astype(np.uint8)

def cjpeg(name, pixels, *options):
    h, w = pixels.shape[:2]
    head = b"P6" if pixels.shape[2] == 3 else b"P5"
    data = subprocess.run(["cjpeg", *options], input=head + b"\n%d %d\n255\n" % (w, h) + pixels.tobytes(), stdout=subprocess.PIPE, check=True).stdout
    open(os.path.join(out, name + ".jpg"), "wb").write(data)

for w, h in [(1, 1), (1, 7), (5, 3), (17, 33), (64, 48), (129, 97)]:
    size = f"{w}x{h}"
    rgb, grey = picture(w, h, 3), picture(w, h, 1)
    for sample in ["1x1", "2x1", "1x2", "2x2", "4x1", "4x2", "1x4", "4x4,2x2,1x1", "1x1,2x2,1x2", "3x1"]:
        for more in [[], ["-progressive"]]:
            name = f"{size}_{sample}{''.join(more)}"
            try:
                cjpeg(name, rgb, "-quality", "85", "-sample", sample, *more)
            except subprocess.CalledProcessError:
                pass  # more blocks than an MCU may have
    for more in [[], ["-progressive"], ["-arithmetic"], ["-arithmetic", "-progressive"], ["-restart", "1"], ["-optimize", "-quality", "10"], ["-quality", "100"]]:
        cjpeg(size + "_grey" + "".join(more), grey, *more)
        cjpeg(size + "_rgb" + "".join(more), rgb, "-rgb", *more)
        cjpeg(size + "_ycc" + "".join(more), rgb, *more)
    cjpeg(size + "_grey22", grey, "-sample", "2x2")
    cjpeg(size + "_12_tables", rgb, "-quality", "1,99")
    cmyk = Image.fromarray(picture(w, h, 4), "CMYK")
    for sub in [0, 1, 2]:
        for progressive in [False, True]:
            buf = io.BytesIO()
            cmyk.save(buf, "JPEG", quality=90, subsampling=sub, progressive=progressive)
            b = buf.getvalue()
            at = b.index(b"Adobe") # also as YCCK, and as plain CMYK without a marker
            for kind, data in {"cmyk": b, "ycck": b[: at + 11] + b"\x02" + b[at + 12 :], "bare": b[: at - 4] + b[at + 12 :]}.items():
                open(os.path.join(out, f"{size}_{kind}_{sub}_{progressive}.jpg"), "wb").write(data)
`

// generated is where generate has written its files.
var generated struct {
	once sync.Once
	dir  string
}

func flavours(t *testing.T) string {
	t.Helper()
	generated.once.Do(func() {
		dir, err := os.MkdirTemp("", "flavours")
		testenv.Must(t, err)
		generated.dir = dir
		pillow.Run(t, generate, dir)
	})
	return generated.dir
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(generated.dir)
	os.Exit(code)
}

// TestFlavours compares the pixels of generated files with Pillow's: sampling
// factors, colour models, codings, odd sizes.
func TestFlavours(t *testing.T) {
	dir := flavours(t)
	paths, _ := filepath.Glob(filepath.Join(dir, "*.jpg"))
	if len(paths) < 200 {
		t.Fatalf("%d files generated", len(paths))
	}
	checkAll(t, paths)
}

// FuzzDecode wants no crash, and Probe to agree with Decode.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\xff\xd8\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64) +
		"\xff\xc0\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00" +
		"\xff\xc4\x00\x14\x00\x01" + strings.Repeat("\x00", 15) + "\x00" +
		"\xff\xc4\x00\x14\x10\x01" + strings.Repeat("\x00", 15) + "\x00" +
		"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x3f\xff\xd9"))
	f.Fuzz(func(t *testing.T, src []byte) {
		lim := transcode.Limits{MaxPixels: 1 << 14}
		info, probeErr := Decoder{}.Probe(bytes.NewReader(src), int64(len(src)), lim)
		px, err := Decoder{}.Decode(context.Background(), src, lim)
		if err == nil && (probeErr != nil || info.Width != px.Width || info.Height != px.Height || info.Mode != px.Mode || len(px.Pix) != px.Len()) {
			t.Fatalf("probe says %+v, %v; decoded %v %dx%d", info, probeErr, px.Mode, px.Width, px.Height)
		}
	})
}

// damages are ways in which files are damaged behind their first SOS.
var damages = map[string]func(r *rand.Rand, b []byte, at int) []byte{
	"flipped": func(r *rand.Rand, b []byte, at int) []byte { b[at] ^= 1 << r.IntN(8); return b },
	"changed": func(r *rand.Rand, b []byte, at int) []byte { b[at] = byte(r.IntN(256)); return b },
	"zeros": func(r *rand.Rand, b []byte, at int) []byte {
		clear(b[at:min(len(b)-2, at+1+r.IntN(40))])
		return b
	},
	"lost": func(r *rand.Rand, b []byte, at int) []byte {
		return slices.Delete(b, at, min(len(b)-2, at+1+r.IntN(40)))
	},
	"twice": func(r *rand.Rand, b []byte, at int) []byte {
		return slices.Insert(b, at, slices.Clone(b[at:min(len(b)-2, at+1+r.IntN(40))])...)
	},
	"cut":    func(_ *rand.Rand, b []byte, at int) []byte { return append(b[:at], 0xff, 0xd9) },
	"marker": func(r *rand.Rand, b []byte, at int) []byte { return slices.Insert(b, at, 0xff, 0xd0+byte(r.IntN(8))) },
}

// refusal is what is refused of files that Pillow reads: what libjpeg makes rubbish of,
// and what is too short for its size.
var refusal = regexp.MustCompile("FF FF 00|cannot be coded|pixels in [0-9]+ bytes")

// TestRepair wants Pillow's pixels of files that are damaged where their picture is.
func TestRepair(t *testing.T) {
	dir := t.TempDir()
	paths, _ := filepath.Glob(filepath.Join(flavours(t), "*.jpg"))
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	var damaged []string
	for _, path := range paths {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		h, err := ParseHeader(src, Limits{})
		if err != nil || h.Coding == CodingArithmetic || h.Width < 17 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(damages)) {
			at := h.ScanOffset + 12 + r.IntN(len(src)-h.ScanOffset-16)
			to := filepath.Join(dir, name+"-"+filepath.Base(path))
			testenv.Must(t, os.WriteFile(to, damages[name](r, bytes.Clone(src), at), 0o644))
			damaged = append(damaged, to)
		}
	}
	want := pillow.OpenRGB(t, damaged...)
	repaired, refused, accepted := 0, 0, 0
	for _, path := range damaged {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		name := filepath.Base(path)
		px, err := Decoder{}.Decode(t.Context(), src, transcode.Limits{})
		switch {
		case err != nil && want[path] == nil:
		case err != nil && refusal.MatchString(err.Error()):
			refused++
		case err != nil:
			t.Errorf("%s: %v, Pillow reads it", name, err)
		case want[path] == nil:
			accepted++
			t.Logf("%s: Pillow refuses it", name)
		case bytes.Equal(px.Pix, want[path]):
			repaired++
		default:
			t.Errorf("%s: not the pixels of Pillow", name)
		}
	}
	t.Logf("%d of %d repaired, %d refused, %d accepted that Pillow refuses", repaired, len(damaged), refused, accepted)
	// Damaged headers between scans libjpeg checks in a few more ways: one file in ten
	// thousand.
	if repaired < 700 || accepted > 3 {
		t.Error("too few are repaired, or too many")
	}
}

// hole is a file that goes on with zeros, and counts what is read of it.
type hole struct {
	head []byte
	read int
}

func (h *hole) ReadAt(b []byte, off int64) (int, error) {
	h.read += len(b)
	clear(b)
	if off < int64(len(h.head)) {
		copy(b, h.head[off:])
	}
	return len(b), nil
}

// TestHeaderWithoutEnd wants a file that is cut off in its header, and has a hole
// behind it, to be given up before much of it is read.
func TestHeaderWithoutEnd(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(flavours(t), "17x33_2x2.jpg"))
	testenv.Must(t, err)
	h := &hole{head: src[:100]}
	if _, err := (Decoder{}).Probe(h, 1<<30, transcode.Limits{}); !errors.Is(err, transcode.ErrUnsupported) {
		t.Error(err)
	}
	if h.read > 2*maxHead {
		t.Errorf("%d bytes were read", h.read)
	}
}
