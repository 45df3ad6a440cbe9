package jpeg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// segment makes a marker segment.
func segment(marker byte, payload string) []byte {
	n := len(payload) + 2
	return append([]byte{0xFF, marker, byte(n >> 8), byte(n)}, payload...)
}

// exif is an EXIF segment's TIFF structure: another tag, the orientation 6, and something that
// looks like a JPEG.
const exif = "II*\x00\x08\x00\x00\x00\x02\x00" +
	"\x0f\x01\x02\x00\x04\x00\x00\x00\x00CBA" +
	"\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00" +
	"\x00\x00\x00\x00\xFF\xD8\xFF\xDA\x00\x02thumbnail\xFF\xD9"

// strip removes all APPn and COM segments before the first scan.
func strip(t testing.TB, src []byte) []byte {
	t.Helper()
	var w walker
	testenv.Must(t, w.start(src, Limits{}))
	out := bytes.Clone(src[:2])
	for {
		marker, at, err := w.next()
		testenv.Must(t, err)
		_, err = w.payload(at)
		testenv.Must(t, err)
		if marker == mSOS {
			return append(out, src[at:]...)
		}
		if marker != mCOM && marker&0xF0 != mAPP0 {
			out = append(out, src[at:w.pos]...)
		}
	}
}

// insert puts segments behind SOI.
func insert(src []byte, segments ...[]byte) []byte {
	out := bytes.Clone(src[:2])
	for _, s := range segments {
		out = append(out, s...)
	}
	return append(out, src[2:]...)
}

// parts are segments that matter to the header of the result in some way.
var parts = map[string][]byte{
	"JFIF":           segment(0xE0, "JFIF\x00\x01\x02\x01\x00\x48\x00\x49\x00\x00"),
	"JFIF 2":         segment(0xE0, "JFIF\x00\x02\x05\x02\x01\x02\x03\x04\x00\x00"),
	"JFIF 3":         segment(0xE0, "JFIF\x00\x03\x01\x00\x00\x01\x00\x01\x00\x00"),
	"JFIF short":     segment(0xE0, "JFIF\x00\x01\x02"),
	"JFIF thumbnail": segment(0xE0, "JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x01\x01\xFF\xD8\xFF"),
	"JFXX":           segment(0xE0, "JFXX\x00\x13\x01\x01\x01\x02\x03"),
	"AVI1":           segment(0xE0, "AVI1\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
	"EXIF":           segment(0xE1, "Exif\x00\x00"+exif),
	"XMP":            segment(0xE1, "http://ns.adobe.com/xap/1.0/\x00<x/>"),
	"ICC 1 of 2":     segment(0xE2, "ICC_PROFILE\x00\x01\x02one"),
	"ICC 2 of 2":     segment(0xE2, "ICC_PROFILE\x00\x02\x02two"),
	"Adobe 0":        segment(0xEE, "Adobe\x00\x64\x00\x00\x00\x00\x00"),
	"Adobe 1":        segment(0xEE, "Adobe\x00\x64\x80\x00\x00\x00\x01"),
	"Adobe 2":        segment(0xEE, "Adobe\x00\x65\x00\x00\x00\x00\x02more"),
	"Adobe short":    segment(0xEE, "Adobe\x00\x64"),
	"empty APP14":    segment(0xEE, ""),
	"APP15":          segment(0xEF, "\xFF\xD9"),
	"comment":        segment(0xFE, "FF \xFF\xFF\x00 and so on"),
	"empty comment":  segment(0xFE, ""),
	"long comment":   segment(0xFE, strings.Repeat("x", 65533)),
	"fill bytes":     []byte("\xFF\xFF\xFF"),
	"rubbish":        []byte("\x00rub\xFF\x00bish"),
	"TEM":            {0xFF, 0x01},
	"RST":            {0xFF, 0xD3},
}

// TestSegments compares with jpegtran for random sequences of segments.
func TestSegments(t *testing.T) {
	names := slices.Sorted(maps.Keys(parts)) // so that the seed alone decides
	var bases [][]byte
	for _, options := range []string{"-grayscale", "-sample 2x2", "-rgb", "-progressive"} {
		bases = append(bases, strip(t, synthetic(t, 20, 9, options)))
	}
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 400 {
		var chosen []string
		var segments [][]byte
		for range rng.IntN(6) {
			name := names[rng.IntN(len(names))]
			chosen = append(chosen, name)
			segments = append(segments, parts[name])
		}
		which := rng.IntN(len(bases))
		t.Run(fmt.Sprintf("%d/%s", which, strings.Join(chosen, ",")), func(t *testing.T) {
			s := checkOracle(t, insert(bases[which], segments...))
			again, err := Transcode(s.Data, Options{})
			if err != nil || !bytes.Equal(again.Data, s.Data) {
				t.Errorf("transcoding again changes the result (%v)", err)
			}
		})
	}
	for _, name := range names {
		for which := range bases {
			t.Run(fmt.Sprintf("%d/only %s", which, name), func(t *testing.T) {
				checkOracle(t, insert(bases[which], parts[name]))
			})
		}
	}
}

// TestBetweenScans puts segments between the scans of a file, and bytes after
// its end.
func TestBetweenScans(t *testing.T) {
	for _, options := range []string{"-progressive", "-scans separate", "-progressive -restart 2"} {
		src := synthetic(t, 40, 30, options)
		ends := scanEnds(t, src)
		for _, name := range []string{"comment", "EXIF", "APP15", "fill bytes", "long comment", "RST", "rubbish"} {
			for _, end := range ends {
				damaged := append(append(bytes.Clone(src[:end]), parts[name]...), src[end:]...)
				s := checkOracle(t, append(damaged, "trailing bytes \xFF\xD9"...))
				again, err := Transcode(s.Data, Options{})
				if err != nil || !bytes.Equal(again.Data, s.Data) {
					t.Errorf("%s: transcoding again changes the result (%v)", name, err)
				}
			}
		}
	}
}

// TestMotionJPEG reads a file without Huffman tables.
func TestMotionJPEG(t *testing.T) {
	src := synthetic(t, 40, 30, "-sample 2x1")
	i := bytes.Index(src, []byte{0xFF, mDHT})
	for i >= 0 && src[i+1] == mDHT {
		n := int(binary.BigEndian.Uint16(src[i+2:]))
		src = append(src[:i], src[i+2+n:]...)
	}
	if bytes.Contains(src, []byte{0xFF, mDHT}) {
		t.Fatal("tables left")
	}
	checkOracle(t, src)
}

// TestTwoComponents uses a picture that only we can make.
func TestTwoComponents(t *testing.T) {
	c, err := coefficientsOf(synthetic(t, 40, 30, "-sample 2x1"), Limits{})
	testenv.Must(t, err)
	c.Components, c.Model = c.Components[:2], ModelUnknown
	s, err := new(encoder).encode(c, 0)
	testenv.Must(t, err)
	if len(s.Ends) != 10 {
		t.Errorf("%d scans, want 10", len(s.Ends))
	}
	if again := checkOracle(t, s.Data); !bytes.Equal(again.Data, s.Data) {
		t.Error("transcoding again changes the result")
	}
}
