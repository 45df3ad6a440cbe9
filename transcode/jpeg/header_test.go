package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

func TestParseHeader(t *testing.T) {
	base := strip(t, synthetic(t, 40, 30, "-sample 2x1"))
	src := insert(base, parts["JFIF"], parts["EXIF"], parts["ICC 2 of 2"], parts["comment"], parts["ICC 1 of 2"])
	h, err := ParseHeader(src, Limits{})
	testenv.Must(t, err)
	if h.Width != 40 || h.Height != 30 || h.Precision != 8 || h.Coding != CodingBaseline || h.Model != ModelYCbCr {
		t.Errorf("%+v", h)
	}
	if got, want := fmt.Sprint(h.Components), "[{1 2 1 0} {2 1 1 1} {3 1 1 1}]"; got != want {
		t.Errorf("components %s, want %s", got, want)
	}
	if h.Orientation != 6 || string(h.ICC) != "onetwo" || string(h.EXIF) != exif {
		t.Errorf("orientation %d, ICC %q, EXIF %q", h.Orientation, h.ICC, h.EXIF)
	}
	if i := bytes.LastIndex(src, []byte{0xFF, mSOS}); h.ScanOffset != i {
		t.Errorf("scan at %d, want %d", h.ScanOffset, i)
	}
	// Reading on by what Need says must come to an end, and not need much more
	// than the header.
	n, reads := 0, 0
	for {
		_, err := ParseHeader(src[:n], Limits{})
		if err == nil {
			break
		}
		var e *Error
		if !errors.Is(err, transcode.ErrTruncated) || !errors.As(err, &e) || e.Need <= n {
			t.Fatalf("%d bytes: %v", n, err)
		}
		n = e.Need
		reads++
	}
	if n > h.ScanOffset+2 || reads > 40 {
		t.Errorf("%d reads, up to byte %d", reads, n)
	}
}

func TestColorModels(t *testing.T) {
	three := strip(t, synthetic(t, 16, 16, "-sample 1x1"))
	ids := func(a, b, c byte) []byte {
		return patch(t, patch(t, patch(t, three, mSOF0, 10, a), mSOF0, 13, b), mSOF0, 16, c)
	}
	sof := bytes.Index(three, []byte{0xFF, mSOF0})
	four := append(append(bytes.Clone(three[:sof]), segment(mSOF0, "\x08\x00\x1E\x00\x28\x04\x01\x11\x00\x02\x11\x01\x03\x11\x01\x04\x11\x01")...), three[sof+19:]...)
	two := append(append(bytes.Clone(three[:sof]), segment(mSOF0, "\x08\x00\x1E\x00\x28\x02\x01\x11\x00\x02\x11\x01")...), three[sof+19:]...)
	for _, test := range []struct {
		src  []byte
		want ColorModel
	}{
		{synthetic(t, 16, 16, "-grayscale"), ModelGrey},
		{three, ModelYCbCr},
		{ids('R', 'G', 'B'), ModelRGB},
		{ids('r', 'g', 'b'), ModelYCbCr},
		{ids(0, 1, 2), ModelYCbCr},
		{insert(three, parts["Adobe 0"]), ModelRGB},
		{insert(three, parts["Adobe 1"]), ModelYCbCr},
		{insert(three, parts["Adobe 2"]), ModelYCbCr},
		{insert(three, parts["Adobe short"]), ModelYCbCr},
		{insert(three, parts["Adobe 0"], parts["Adobe 1"]), ModelYCbCr},
		{insert(three, parts["Adobe 0"], parts["JFIF"]), ModelYCbCr},
		{insert(three, parts["Adobe 0"], parts["JFIF short"]), ModelRGB},
		{insert(ids('R', 'G', 'B'), parts["JFIF"]), ModelYCbCr},
		{four, ModelCMYK},
		{insert(four, parts["Adobe 0"]), ModelCMYK},
		{insert(four, parts["Adobe 2"]), ModelYCCK},
		{insert(four, parts["Adobe 1"]), ModelYCCK},
		{two, ModelUnknown},
	} {
		h, err := ParseHeader(test.src, Limits{})
		if err != nil || h.Model != test.want {
			t.Errorf("%v, want %v (%v)", h.Model, test.want, err)
		}
	}
}

func TestCodings(t *testing.T) {
	base := synthetic(t, 16, 16, "-sample 1x1")
	for marker, want := range map[byte]Coding{
		0xC0: CodingBaseline, 0xC1: CodingExtended, 0xC2: CodingProgressive, 0xC3: CodingLossless,
		0xC5: CodingHierarchical, 0xC9: CodingArithmetic, 0xCA: CodingArithmetic, 0xCB: CodingLossless,
		0xCD: CodingHierarchical, 0xF7: CodingLossless,
	} {
		h, err := ParseHeader(patch(t, base, mSOF0, 1, marker), Limits{})
		if err != nil || h.Coding != want || h.Width != 16 {
			t.Errorf("marker %02X: %v, want %v (%v)", marker, h.Coding, want, err)
		}
	}
	h, err := ParseHeader(patch(t, base, mSOF0, 4, 12), Limits{})
	if err != nil || h.Precision != 12 {
		t.Errorf("12 bits: %+v, %v", h, err)
	}
	// A hierarchical file says its size twice.
	sof := bytes.Index(base, []byte{0xFF, mSOF0})
	h, err = ParseHeader(append(append(bytes.Clone(base[:sof]), segment(mDHP, string(base[sof+4:sof+19]))...), base[sof:]...), Limits{})
	if err != nil || h.Coding != CodingHierarchical || h.Width != 16 {
		t.Errorf("hierarchical: %+v, %v", h, err)
	}
	arithmetic := synthetic(t, 16, 16, "-arithmetic")
	if h, err := ParseHeader(arithmetic, Limits{}); err != nil || h.Coding != CodingArithmetic {
		t.Errorf("arithmetic: %+v, %v", h, err)
	}
	if _, err := Transcode(arithmetic, Options{}); !errors.Is(err, transcode.ErrUnsupported) {
		t.Errorf("arithmetic: %v", err)
	}
}

func TestICC(t *testing.T) {
	chunk := func(seq, n byte, data string) []byte {
		return segment(0xE2, "ICC_PROFILE\x00"+string([]byte{seq, n})+data)
	}
	base := strip(t, synthetic(t, 8, 8, "-grayscale"))
	for _, test := range []struct {
		want   string
		chunks [][]byte
	}{
		{"", nil},
		{"a", [][]byte{chunk(1, 1, "a")}},
		{"abc", [][]byte{chunk(3, 3, "c"), chunk(1, 3, "a"), chunk(2, 3, "b")}},
		{"ac", [][]byte{chunk(1, 3, "a"), chunk(2, 3, ""), chunk(3, 3, "c")}},
		{"", [][]byte{chunk(1, 2, "a")}},
		{"", [][]byte{chunk(1, 2, "a"), chunk(1, 2, "a")}},
		{"", [][]byte{chunk(1, 2, "a"), chunk(2, 3, "a")}},
		{"", [][]byte{chunk(0, 1, "a")}},
		{"", [][]byte{chunk(2, 1, "a")}},
		{"", [][]byte{segment(0xE2, "ICC_PROFILE\x00\x01")}},
	} {
		h, err := ParseHeader(insert(base, test.chunks...), Limits{})
		if err != nil || string(h.ICC) != test.want {
			t.Errorf("%q: %q, %v", test.want, h.ICC, err)
		}
	}
}
