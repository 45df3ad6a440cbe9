package l3

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/pnm"
)

// noisy is a picture of one of many kinds: from what compresses to nothing to what no width of
// deltas but 8 fits.
func noisy(rng *rand.Rand, width, height, channels int) *transcode.Pixels {
	px := &transcode.Pixels{Width: width, Height: height, Mode: transcode.ModeL}
	if channels == 3 {
		px.Mode = transcode.ModeRGB
	}
	px.Pix = make([]byte, px.Len())
	kind := rng.IntN(6)
	for i := range px.Pix {
		x, y, c := i/channels%width, i/channels/width, i%channels
		px.Pix[i] = [...]byte{
			255 * byte(x/64), // black and white
			byte(37*(x+5*c) - 91*y),
			byte(rng.Uint32()),
			[...]byte{0, 1, 127, 128, 254, 255}[rng.IntN(6)],
			byte(max(0, rng.IntN(6)-2)),
			byte(rng.IntN(1 << ((y + c) % 9))), // every row has a width of its own
		}[kind]
	}
	return px
}

func encodeV1(t testing.TB, px *transcode.Pixels, patch int) []byte {
	t.Helper()
	b, err := Encode(px, Options{Mode: V1, Patch: patch})
	testenv.Must(t, err)
	return b
}

func wantDecoded(t testing.TB, src []byte, want *transcode.Pixels) {
	t.Helper()
	got, err := Decoder{}.Decode(t.Context(), src, transcode.Limits{})
	testenv.Must(t, err)
	if got.Width != want.Width || got.Height != want.Height || got.Mode != want.Mode || !bytes.Equal(got.Pix, want.Pix) {
		t.Fatalf("another picture than the %d×%d %v", want.Width, want.Height, want.Mode)
	}
}

// TestV1Patches goes through all patch sizes, of plain and extended files.
func TestV1Patches(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for patch := 1; patch <= maxPatch1; patch++ {
		for _, size := range [][3]int{{1 + rng.IntN(300), 1 + rng.IntN(80), 1}, {1 + rng.IntN(300), 1 + rng.IntN(80), 3}, {patch * (1 + rng.IntN(2)), patch, 3}} {
			px := noisy(rng, size[0], size[1], size[2])
			b := encodeV1(t, px, patch)
			if plain := size[2] == 3 && size[0]%patch == 0 && size[1]%patch == 0; strings.HasPrefix(string(b), magic1) != plain {
				t.Errorf("%v in patches of %d: starts with %q", size, patch, b[:4])
			}
			wantDecoded(t, b, px)
		}
	}
	// The most bytes that a patch can have: their number takes all of its 16 bits.
	px := &transcode.Pixels{Width: maxPatch1, Height: maxPatch1, Mode: transcode.ModeL, Pix: make([]byte, maxPatch1*maxPatch1)}
	for i := range px.Pix {
		px.Pix[i] = byte(rng.Uint32())
	}
	b := encodeV1(t, px, maxPatch1)
	if want := headerLen1 + 1 + 2 + 0xffff; len(b) != want {
		t.Errorf("%d bytes, want %d", len(b), want)
	}
	wantDecoded(t, b, px)
}

// TestV1Example spells out a file.
func TestV1Example(t *testing.T) {
	px := &transcode.Pixels{Width: 3, Height: 2, Mode: transcode.ModeL, Pix: []byte{
		10, 12, 13,
		11, 12, 15,
	}}
	want := []byte{
		'L', 'L', 'L', '+', 3, 0, 0, 0, 2, 0, 0, 0, 64, 1,
		6, 0, // bytes of the only patch
		// 2 bits, base 10, deltas 0, 2, 3: 0010 00001010 00 10 11, the last bits first.
		0xa2, 0x80, 0x03,
		// Predictions: a is 0 and b = 10 ≤ c = 12 ≤ 3b: 10. a = 10 is farther from b = 12
		// than c = 13, and b not nearer to the middle: 10. c is 0 and a = 12 < b = 13: 12.
		// Residuals 1, 2, 3: 2 bits, base 1, deltas 0, 1, 2.
		0x12, 0x40, 0x02,
	}
	if b := encodeV1(t, px, 0); !bytes.Equal(b, want) {
		t.Errorf("% x\nwant % x", b, want)
	}
	wantDecoded(t, want, px)
	// What follows the last patch does not count.
	wantDecoded(t, append(want, "more"...), px)
}

// TestV1Vectors decodes what other encoders wrote, and writes it again.
func TestV1Vectors(t *testing.T) {
	name := regexp.MustCompile(`^(.*)\.n(\d+)(\.ref)?\.l3$`)
	for _, path := range testenv.Shared(t, "l3/*.l3") {
		m := name.FindStringSubmatch(filepath.Base(path))
		if m == nil {
			t.Fatalf("what is %s?", path)
		}
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		ppm, err := os.ReadFile(filepath.Join(filepath.Dir(path), m[1]+".ppm"))
		testenv.Must(t, err)
		want, err := pnm.Decoder{}.Decode(t.Context(), ppm, transcode.Limits{})
		testenv.Must(t, err)
		wantDecoded(t, src, want)
		patch, _ := strconv.Atoi(m[2])
		if b := encodeV1(t, want, patch); m[3] != "" && !bytes.Equal(b, src) {
			t.Errorf("%s: other bytes than the authors' encoder", path)
		}
	}
}

func file32(magic string, width, height int32, rest ...byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(width))
	return append(binary.LittleEndian.AppendUint32(b, uint32(height)), rest...)
}

// TestV1Hostile has what no encoder writes.
func TestV1Hostile(t *testing.T) {
	const most = math.MaxInt32
	for _, c := range []struct {
		name string
		src  []byte
		kind error
		says string
	}{
		{"empty", nil, transcode.ErrTruncated, "13"},
		{"magic", []byte("LLL!aaaaaaaaaaaaaaaaaaaaa"), transcode.ErrBad, "4c 4c 4c 21"},
		{"short magic", []byte("PNG!"), transcode.ErrBad, "no L3 file"},
		{"header", file32("LLL.", 8, 8), transcode.ErrTruncated, "12 bytes, its header takes 13"},
		{"extended header", file32("LLL+", 8, 8, 8), transcode.ErrTruncated, "13 bytes, its header takes 14"},
		{"no width", file32("LLL.", 0, 8, 8), transcode.ErrBad, "0 by 8"},
		{"negative width", file32("LLL.", -64, 64, 64), transcode.ErrBad, "-64 by 64"},
		{"negative height", file32("LLL+", 64, math.MinInt32, 64, 3), transcode.ErrBad, "by -2147483648"},
		{"no patch", file32("LLL.", 8, 8, 0), transcode.ErrBad, "patches of 0"},
		{"no channel", file32("LLL+", 8, 8, 8, 0), transcode.ErrBad, "0 channels"},
		{"two channels", file32("LLL+", 8, 8, 8, 2), transcode.ErrBad, "2 channels"},
		{"remainder", file32("LLL.", 65, 64, 64), transcode.ErrUnsupported, "rows and columns beyond the last whole patch are not in the file"},
		{"smaller than a patch", file32("LLL.", 8, 8, 64), transcode.ErrUnsupported, "8 by 8 pixels in patches of 64"},
		{"huge", file32("LLL+", most, most, 255, 3), transcode.ErrUnsupported, "--max-pixels"},
		{"no table", file32("LLL.", 64, 64, 64), transcode.ErrTruncated, "table of 3 sizes"},
		{"small patches", file32("LLL+", 400, 400, 1, 3), transcode.ErrTruncated, "table of 480000 sizes"},
		{"no patches", file32("LLL.", 64, 64, 64, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), transcode.ErrTruncated, "ends at byte 65554"},
		{"empty patch", file32("LLL+", 2, 1, 8, 1, 0, 0), transcode.ErrBad, "0 bytes end before row 0"},
		{"half a head", file32("LLL+", 2, 1, 8, 1, 1, 0, 0), transcode.ErrBad, "1 bytes end before row 0"},
		{"short patch", file32("LLL+", 2, 2, 8, 1, 2, 0, 0, 0), transcode.ErrBad, "2 bytes end before row 1"},
		{"long patch", file32("LLL+", 2, 1, 8, 1, 3, 0, 0, 0, 0), transcode.ErrBad, "rows take 2 bytes, the table says 3"},
		{"long row", file32("LLL+", 8, 1, 8, 1, 3, 0, 8, 0, 0), transcode.ErrBad, "row 0 takes 10 bytes, and 3 are left"},
		{"wide deltas", file32("LLL+", 2, 1, 8, 1, 4, 0, 9, 0, 0, 0), transcode.ErrBad, "row 0 has deltas of 9 bits"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decoder{}.Decode(t.Context(), c.src, transcode.Limits{})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.kind, c.says)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, n)
		}
	}
	b := encodeV1(t, pictures.Pixels(transcode.ModeRGB, 70, 3), 8)
	for n := range b {
		if _, err := (Decoder{}).Decode(t.Context(), b[:n:n], transcode.Limits{}); !errors.Is(err, transcode.ErrTruncated) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

// TestPredict1 tries everything there is, against what the format says.
func TestPredict1(t *testing.T) {
	between := func(p, q int) int { return max(p-q, q-p) }
	pick := func(first bool, p, q int) int {
		if first {
			return p
		}
		return q
	}
	for a := range 256 {
		for b := range 256 {
			for c := range 256 {
				pa, pb, pc := between(c, b), between(a+c, 2*b), between(a, b)
				want := pick(pa <= pb && pa <= pc, a, pick(pa <= pc, b, c))
				if a == 0 {
					want = pick(pb <= pc, b, c)
				} else if c == 0 {
					want = pick(pa <= pb, a, b)
				}
				var got [1]byte
				if predict1(got[:], []byte{byte(a), byte(b), byte(c)}); int(got[0]) != want {
					t.Fatalf("%d from %d, %d, %d, want %d", got[0], a, b, c, want)
				}
			}
		}
	}
}

// FuzzV1 encodes pictures of any samples.
func FuzzV1(f *testing.F) {
	f.Add([]byte{0}, uint16(1), uint8(64), true)
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"), uint16(3), uint8(2), false)
	f.Fuzz(func(t *testing.T, pix []byte, width uint16, patch uint8, colour bool) {
		px := &transcode.Pixels{Width: int(width), Mode: transcode.ModeL}
		if colour {
			px.Mode = transcode.ModeRGB
		}
		if width == 0 || len(pix) > 1<<16 || len(pix) < px.RowBytes() {
			return
		}
		px.Height = len(pix) / px.RowBytes()
		px.Pix = pix[:px.Len()]
		wantDecoded(t, encodeV1(t, px, int(patch)), px)
	})
}
