package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// kinds are all kinds of error there may be but for ErrInternal, which is never
// the input's fault.
var kinds = []error{transcode.ErrBad, transcode.ErrUnsupported, transcode.ErrTruncated}

func checkKind(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("not an *Error: %v", err)
	}
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return
		}
	}
	t.Fatalf("error of no kind that input can cause: %v", err)
}

// small are files of every coding we read.
func small(t testing.TB) map[string][]byte {
	files := map[string][]byte{}
	for _, options := range []string{"-sample 2x2", "-grayscale", "-rgb", "-restart 1B", "-grayscale -restart 3B",
		"-progressive", "-progressive -restart 1B", "-scans separate", "-scans deep", "-optimize -quality 95"} {
		files[options] = synthetic(t, 40, 30, options)
	}
	return files
}

func TestTruncated(t *testing.T) {
	for name, src := range small(t) {
		if len(src) != eoiEnd(src) {
			t.Fatal("the file has trailing bytes")
		}
		for n := range src {
			cut := src[:n:n]
			if _, err := Transcode(cut, Options{}); !errors.Is(err, transcode.ErrTruncated) {
				t.Errorf("%s: the first %d of %d bytes: %v", name, n, len(src), err)
			}
			// With EOI, the structure is whole again, but not the picture.
			if _, err := Transcode(append(cut, EOI[:]...), Options{}); err == nil && !endsScan(t, src, n) {
				t.Errorf("%s: first %d of %d bytes and EOI are accepted", name, n, len(src))
			}
			checkKind(t, second(ParseHeader(cut, Limits{})))
		}
	}
}

// scanEnds returns the offset after the entropy-coded data of each scan of a good file.
func scanEnds(t testing.TB, src []byte) (ends []int) {
	t.Helper()
	var w walker
	err := w.start(src, Limits{})
	for err == nil {
		var marker byte
		var at int
		if marker, at, err = w.next(); err != nil || marker == mEOI {
			break
		}
		_, err = w.payload(at)
		if err == nil && marker == mSOS {
			w.pos = entropyEnd(src, w.pos)
			ends = append(ends, w.pos)
		}
	}
	testenv.Must(t, err)
	return ends
}

func second[T any](_ T, err error) error { return err }

func eoiEnd(src []byte) int { return bytes.LastIndex(src, EOI[:]) + 2 }

// endsScan reports whether the first n bytes are a progressive file with some
// scans less, which is a valid file. A last FF is a fill byte before EOI.
func endsScan(t *testing.T, src []byte, n int) bool {
	h, err := ParseHeader(src, Limits{})
	if err != nil {
		return false
	}
	ends := scanEnds(t, src)
	for i, end := range ends {
		last := i == len(ends)-1
		next := len(src)
		if !last {
			// Up to the SOS of the next scan there are only tables.
			next = end + bytes.Index(src[end:], []byte{0xFF, mSOS})
		}
		if (h.Coding == CodingProgressive || last) && n >= end && n <= next+1 {
			return true
		}
	}
	return false
}

// TestDamaged changes each byte of small files in several ways. Nothing may
// panic, and what is accepted must be what jpegtran makes of it.
func TestDamaged(t *testing.T) {
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	accepted, compared := 0, 0
	for name, src := range small(t) {
		damaged := bytes.Clone(src)
		for i := range src {
			for _, b := range []byte{src[i] ^ 1<<rng.IntN(8), byte(rng.IntN(256)), 0, 0xFF} {
				if b == src[i] {
					continue
				}
				damaged[i] = b
				s, err := Transcode(damaged, Options{})
				checkKind(t, err)
				checkKind(t, second(ParseHeader(damaged, Limits{})))
				if err != nil {
					continue
				}
				if accepted++; accepted%100 != 0 {
					continue
				}
				want, ok := jpegtran(damaged)
				if ok {
					compared++
				}
				if ok && !bytes.Equal(want, s.Data) {
					t.Errorf("seed %d: %s, byte %d changed to %02X: result differs from jpegtran's", seed, name, i, b)
				}
			}
			damaged[i] = src[i]
		}
	}
	t.Logf("%d accepted, %d of them compared", accepted, compared)
	if compared < 50 {
		t.Errorf("only %d results compared", compared)
	}
}

// jpegtran returns false where jpegtran does not take the input. Warnings are
// fine.
func jpegtran(src []byte) ([]byte, bool) {
	cmd := exec.Command("jpegtran", "-copy", "all", "-progressive")
	cmd.Stdin = bytes.NewReader(src)
	out, err := cmd.Output()
	return out, err == nil || cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 2
}

// patch returns src with bytes changed behind the first occurrence of a marker.
func patch(t testing.TB, src []byte, marker byte, at int, b ...byte) []byte {
	t.Helper()
	i := bytes.Index(src, []byte{0xFF, marker})
	if i < 0 {
		t.Fatalf("no marker %02X", marker)
	}
	out := bytes.Clone(src)
	copy(out[i+at:], b)
	return out
}

func TestErrors(t *testing.T) {
	base := synthetic(t, 40, 30, "-sample 2x2")
	prog := synthetic(t, 40, 30, "-progressive")
	restart := synthetic(t, 40, 30, "-restart 1B")
	sos := bytes.Index(base, []byte{0xFF, mSOS})
	sof := bytes.Index(base, []byte{0xFF, mSOF0})
	const b, u, tr = 0, 1, 2 // as in kinds
	huge := patch(t, base, mSOF0, 5, 0xFF, 0xFF, 0xFF, 0xFF)
	five := append(append(bytes.Clone(base[:sof]), segment(mSOF0, "\x08\x00\x1E\x00\x28\x05\x01\x11\x00\x02\x11\x01\x03\x11\x01\x04\x11\x01\x05\x11\x01")...), base[sof+19:]...)
	for _, test := range []struct {
		name string
		kind int
		src  []byte
	}{
		{"empty", tr, nil},
		{"PNG", b, []byte("\x89PNG\r\n\x1a\n")},
		{"SOI only", tr, base[:2]},
		{"no scan", tr, append(bytes.Clone(base[:sos]), EOI[:]...)},
		{"no SOF", b, append(bytes.Clone(base[:sof]), base[sof+19:]...)},
		{"two SOF", b, append(bytes.Clone(base[:sos]), base[sof:]...)},
		{"two SOI", b, append(bytes.Clone(base[:2]), base...)},
		{"lossless", u, patch(t, base, mSOF0, 1, 0xC3)},
		{"arithmetic", u, patch(t, base, mSOF0, 1, 0xC9)},
		{"progressive arithmetic", u, patch(t, base, mSOF0, 1, 0xCA)},
		{"hierarchical", u, patch(t, base, mSOF0, 1, 0xC5)},
		{"DHP", u, patch(t, base, mSOF0, 1, mDHP)},
		{"reserved marker", b, patch(t, base, mSOF0, 1, 0x02)},
		{"JPEG-LS", u, patch(t, base, mSOF0, 1, 0xF7)},
		{"12 bits", u, patch(t, base, mSOF0, 4, 12)},
		{"DNL", u, patch(t, base, mSOF0, 5, 0, 0)},
		{"width 0", b, patch(t, base, mSOF0, 7, 0, 0)},
		{"no components", b, patch(t, base, mSOF0, 9, 0)},
		{"five components", u, five},
		{"sampling 0", b, patch(t, base, mSOF0, 11, 0x01)},
		{"sampling 5", b, patch(t, base, mSOF0, 11, 0x15)},
		{"large MCU", u, patch(t, base, mSOF0, 11, 0x44)},
		{"same id twice", u, patch(t, base, mSOF0, 13, 1)},
		{"quantisation table 4", b, patch(t, base, mSOF0, 12, 4)},
		{"quantisation table undefined", b, patch(t, base, mSOF0, 12, 3)},
		{"too large", u, huge},
		{"too large for its data", tr, patch(t, base, mSOF0, 5, 0x10, 0, 0x10, 0)},
		{"DQT too short", b, patch(t, base, mDQT, 2, 0, 66)},
		{"DQT precision", b, patch(t, base, mDQT, 4, 0x20)},
		{"DHT class", b, patch(t, base, mDHT, 4, 0x20)},
		{"DHT index", b, patch(t, base, mDHT, 4, 0x04)},
		{"DHT oversubscribed", b, patch(t, base, mDHT, 5, 3)},
		{"DHT with code of all ones", b, patch(t, base, mDHT, 5, 2, 0)},
		{"DC symbol over 15", b, patch(t, base, mDHT, 21, 16)},
		{"scan of unknown component", b, patch(t, base, mSOS, 5, 9)},
		{"scan of one component twice", b, patch(t, base, mSOS, 7, 1)},
		{"scan with undefined table", b, patch(t, base, mSOS, 6, 0x33)},
		{"SOS length", b, patch(t, base, mSOS, 4, 2)},
		{"segment length 1", b, patch(t, base, mDQT, 2, 0, 1)},
		{"band beyond 63", b, patch(t, prog, mSOS, 12, 64)},
		{"refinement first", b, patch(t, prog, mSOS, 13, 0x10)},
		{"bits of DC scan too low", b, patch(t, prog, mSOS, 13, 0x0E)},
		{"RST out of order", b, patch(t, restart, 0xD1, 1, 0xD2)},
		{"RST too early", b, append(append(bytes.Clone(base[:len(base)-20]), 0xFF, 0xD0), base[len(base)-20:]...)},
		{"RST instead of EOI", tr, append(bytes.Clone(base[:len(base)-2]), 0xFF, 0xD0)},
		{"DHT in the middle of data", b, append(bytes.Clone(base[:len(base)-20]), base[bytes.Index(base, []byte{0xFF, mDHT}):]...)},
		{"FF FF 00 in the data", b, append(append(bytes.Clone(base[:len(base)-20]), 0xFF, 0xFF, 0x00), base[len(base)-20:]...)},
		{"EOI in the middle of data", tr, append(bytes.Clone(base[:len(base)-20]), EOI[:]...)},
		{"changed quantisation table", u, append(append(bytes.Clone(base[:len(base)-2]), segment(mDQT, string(make([]byte, 65)))...), EOI[:]...)},
		{"JFIF after the first scan", u, append(append(bytes.Clone(base[:len(base)-2]), parts["JFIF"]...), EOI[:]...)},
		{"DNL with another height", u, append(append(bytes.Clone(base[:len(base)-2]), segment(mDNL, "\x00\x1F")...), EOI[:]...)},
	} {
		start := time.Now()
		_, err := Transcode(test.src, Options{})
		if !errors.Is(err, kinds[test.kind]) {
			t.Errorf("%s: error %v, want one that is %q", test.name, err, kinds[test.kind])
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: took %v", test.name, took)
		}
	}
	// And these are fine.
	for name, src := range map[string][]byte{
		"DNL with the same height": append(append(bytes.Clone(base[:len(base)-2]), segment(mDNL, "\x00\x1E")...), EOI[:]...),
		"band of a baseline scan":  patch(t, base, mSOS, 11, 0, 0, 0),
		"DAC":                      insert(base, segment(mDAC, "\x10\x05")),
	} {
		if _, err := Transcode(src, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	src := synthetic(t, 40, 30, "-progressive")
	for _, test := range []struct {
		lim Limits
		ok  bool
	}{
		{Limits{MaxPixels: 1200}, true},
		{Limits{MaxPixels: 1199}, false},
		{Limits{MaxScans: 10}, true},
		{Limits{MaxScans: 9}, false},
		{Limits{MaxSegments: 14}, true},
		{Limits{MaxSegments: 13}, false},
	} {
		_, err := Transcode(src, Options{Limits: test.lim})
		if test.ok && err != nil || !test.ok && !errors.Is(err, transcode.ErrUnsupported) {
			t.Errorf("%+v: %v", test.lim, err)
		}
	}
	// Scans are counted before data that is damaged is decoded.
	damaged := bytes.Clone(src)
	damaged[scanEnds(t, src)[0]-1] ^= 0xFF
	if _, err := (Decoder{}).Decode(t.Context(), damaged, transcode.Limits{MaxScans: 9}); !errors.Is(err, transcode.ErrUnsupported) {
		t.Errorf("damaged, with too many scans: %v", err)
	}
}

// TestManyScans makes sure that a small file with very many scans over a large
// picture is refused before it costs much.
func TestManyScans(t *testing.T) {
	flat := append([]byte("P5\n4000 4000\n255\n"), make([]byte, 4000*4000)...)
	src, _ := tool(t, flat, "cjpeg", "-progressive")
	ends := scanEnds(t, src)
	// Scan 2 is cheap to say and has to visit all blocks.
	var b bytes.Buffer
	b.Write(src[:ends[0]])
	for range 10000 {
		b.Write(src[ends[0]:ends[1]])
	}
	b.Write(EOI[:])
	start := time.Now()
	_, err := Transcode(b.Bytes(), Options{})
	checkKind(t, err)
	if err == nil {
		t.Error("accepted")
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestHugeCoefficients checks that what libjpeg cannot code is refused.
func TestHugeCoefficients(t *testing.T) {
	for _, test := range []struct {
		component, k int
		value        int16
		ok           bool
	}{
		{0, 0, 2047, true}, {0, 0, -2048, true}, {0, 0, 8000, false},
		{0, 1, 4095, true}, {0, 1, -4095, true}, {0, 1, 4096, false}, {0, 63, -32768, false},
		{1, 1, 2047, true}, {1, 1, 2048, false}, {2, 5, -2048, false}, {2, 5, -2047, true},
	} {
		c, err := coefficientsOf(synthetic(t, 16, 16, "-sample 1x1"), Limits{})
		testenv.Must(t, err)
		p := &c.Components[test.component]
		p.Blocks[2][test.k] = test.value
		if test.k > 0 {
			p.Nonzero[2] |= 1 << test.k
		}
		s, err := new(encoder).encode(c, 0)
		if test.ok {
			if err != nil {
				t.Errorf("%+v: %v", test, err)
				continue
			}
			again, err := coefficientsOf(s.Data, Limits{})
			if err != nil || again.Components[test.component].Blocks[2] != p.Blocks[2] {
				t.Errorf("%+v: not the same after a round trip (%v)", test, err)
			}
			checkOracle(t, s.Data)
		} else if !errors.Is(err, transcode.ErrBad) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestErrorText(t *testing.T) {
	_, err := ParseHeader([]byte("\xFF\xD8\xFF\xE1\x12\x34"), Limits{})
	const want = "truncated: jpeg, byte 2: input ends after 6 bytes, 4664 or more are needed"
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var e *Error
	if !errors.As(err, &e) || e.Need != 4+0x1234 {
		t.Errorf("Need: %+v", e)
	}
}

// coefficientsOf reads the coefficients of a whole file.
func coefficientsOf(src []byte, lim Limits) (*Coefficients, error) {
	c := new(Coefficients)
	if err := new(decoder).decode(src, lim, c); err != nil {
		return nil, err
	}
	return c, nil
}
