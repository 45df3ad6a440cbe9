package v1

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/transcode"
)

// wantKind wants an error to be one that a file may cause.
func wantKind(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, transcode.ErrBad) && !errors.Is(err, transcode.ErrUnsupported) && !errors.Is(err, transcode.ErrTruncated) {
		t.Fatalf("error of no kind: %v", err)
	}
}

// checkKind decodes anything at all, and wants an error of a kind if there is one.
func checkKind(t testing.TB, src []byte) error {
	t.Helper()
	_, err := decode(src)
	if err != nil {
		wantKind(t, err)
	}
	return err
}

// TestDamage changes bytes of files.
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	failed, n := 0, 20000
	if testing.Short() {
		n = 2000
	}
	for range n {
		p := newPicture(rng, 1+rng.IntN(100), 1+rng.IntN(20), 1+2*rng.IntN(2), rng.IntN(len(contents)))
		b := encode(t, p, 1+rng.IntN(80))
		for range 1 + rng.IntN(4) {
			// Headers are what matters.
			at := rng.IntN(len(b))
			if rng.IntN(3) == 0 {
				at = rng.IntN(min(len(b), 40))
			}
			b[at] = byte(rng.Uint32())
		}
		if checkKind(t, b) != nil {
			failed++
		}
	}
	t.Logf("%d of %d were refused", failed, n)
}

// TestTruncated cuts files everywhere.
func TestTruncated(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, size := range [][3]int{{10, 7, 1}, {16, 8, 3}, {70, 3, 3}} {
		p := newPicture(rng, size[0], size[1], size[2], len(contents)-2)
		b := encode(t, p, 8)
		for n := range b {
			if err := checkKind(t, b[:n:n]); !errors.Is(err, transcode.ErrTruncated) {
				t.Fatalf("%d of %d bytes of %v: %v", n, len(b), p, err)
			}
			h, err := Parse(b[:n:n])
			if n < HeaderLen-1 && !errors.Is(err, transcode.ErrTruncated) || n >= HeaderLen && (err != nil || h.Width != p.width) {
				t.Fatalf("header from %d bytes: %+v, %v", n, h, err)
			}
		}
		// What follows the last patch does not count.
		wantDecoded(t, append(b, "more"...), p)
	}
}

func file32(magic string, width, height int32, rest ...byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(width))
	return append(binary.LittleEndian.AppendUint32(b, uint32(height)), rest...)
}

// TestHostile has what no encoder writes.
func TestHostile(t *testing.T) {
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
		{"no table", file32("LLL.", 64, 64, 64), transcode.ErrTruncated, "table of 3 sizes"},
		{"huge", file32("LLL+", most, most, 255, 3), transcode.ErrTruncated, "table"},
		{"huge in small patches", file32("LLL+", most, most, 1, 3), transcode.ErrTruncated, "table"},
		{"no patches", file32("LLL.", 64, 64, 64, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), transcode.ErrTruncated, "ends at byte 65554"},
		{"empty patch", file32("LLL+", 2, 1, 8, 1, 0, 0), transcode.ErrBad, "0 bytes end before row 0"},
		{"half a head", file32("LLL+", 2, 1, 8, 1, 1, 0, 0), transcode.ErrBad, "1 bytes end before row 0"},
		{"short patch", file32("LLL+", 2, 2, 8, 1, 2, 0, 0, 0), transcode.ErrBad, "2 bytes end before row 1"},
		{"long patch", file32("LLL+", 2, 1, 8, 1, 3, 0, 0, 0, 0), transcode.ErrBad, "rows take 2 bytes, the table says 3"},
		{"long row", file32("LLL+", 8, 1, 8, 1, 3, 0, 8, 0, 0), transcode.ErrBad, "rows take 10 bytes, the table says 3"},
		{"wide deltas", file32("LLL+", 2, 1, 8, 1, 4, 0, 9, 0, 0, 0), transcode.ErrBad, "row 0 has deltas of 9 bits"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Decode(transcode.Interleaved(make([]byte, 1<<20), 64, 3, 1), c.src)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.kind, c.says)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, n)
		}
	}
}

// TestBadCalls has targets that do not fit, and pictures that no file holds.
func TestBadCalls(t *testing.T) {
	p := &picture{8, 8, 3, make([]byte, 8*8*3)}
	b := encode(t, p, 8)
	small := p.target()
	small.Pix = small.Pix[:len(small.Pix)-1]
	if err := Decode(small, b); !errors.Is(err, transcode.ErrInternal) {
		t.Errorf("into too little memory: %v", err)
	}
	if _, err := Encode(small, 8, 8, 3, 8); !errors.Is(err, transcode.ErrInternal) {
		t.Errorf("from too little memory: %v", err)
	}
	if _, err := Encode(p.target(), 0, 8, 3, 8); !errors.Is(err, transcode.ErrInternal) {
		t.Errorf("no width: %v", err)
	}
	for _, c := range [][2]int{{2, 8}, {4, 8}, {0, 8}, {3, 256}, {3, -1}} {
		if _, err := Encode(p.target(), 4, 4, c[0], c[1]); !errors.Is(err, transcode.ErrUnsupported) {
			t.Errorf("%d channels in patches of %d: %v", c[0], c[1], err)
		}
	}
}
