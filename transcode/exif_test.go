package transcode_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/transcode"
)

// exif makes a TIFF structure with two entries, the second the orientation.
func exif(order binary.AppendByteOrder, kind uint16, value uint32) []byte {
	b := []byte("II*\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		b = []byte("MM\x00*")
	}
	b = order.AppendUint32(b, 8)
	b = order.AppendUint16(b, 2)
	b = append(b, make([]byte, 12)...)
	b = order.AppendUint16(b, 0x112)
	b = order.AppendUint16(b, kind)
	b = order.AppendUint32(b, 1)
	if kind == 3 {
		b = order.AppendUint16(b, uint16(value))
		b = append(b, 0xaa, 0xbb)
	} else {
		b = order.AppendUint32(b, value)
	}
	return append(b, "what follows"...)
}

func TestEXIFOrientation(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, kind := range []uint16{3, 4} {
			for value := range uint32(10) {
				b := exif(order, kind, value)
				want := uint8(value)
				if value > 8 {
					want = 0
				}
				if got := transcode.EXIFOrientation(b); got != want {
					t.Errorf("%v type %d: %d, want %d", order, kind, got, want)
				}
				upright := transcode.EXIFUpright(b)
				if !bytes.Equal(upright, exif(order, kind, 1)) {
					t.Errorf("%v type %d value %d: % x", order, kind, value, upright)
				}
				if !bytes.Equal(b, exif(order, kind, value)) {
					t.Errorf("%v type %d value %d: the argument has changed", order, kind, value)
				}
			}
		}
	}
	for _, b := range []string{"", "II*\x00", "II*\x00\xff\xff\xff\xff", "XX*\x00\x08\x00\x00\x00\x00\x00", "II*\x00\x08\x00\x00\x00\xff\xff"} {
		if got := transcode.EXIFOrientation([]byte(b)); got != 0 || string(transcode.EXIFUpright([]byte(b))) != b {
			t.Errorf("%q: %d", b, got)
		}
	}
}

func FuzzEXIF(f *testing.F) {
	f.Add(exif(binary.LittleEndian, 3, 6))
	f.Add(exif(binary.BigEndian, 4, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := transcode.EXIFOrientation(b)
		after := transcode.EXIFOrientation(transcode.EXIFUpright(b))
		if before != 0 && after != 1 {
			t.Fatalf("orientation %d, then %d", before, after)
		}
	})
}

// failing is a file whose blocks cannot be read.
type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestWindow(t *testing.T) {
	text := strings.Repeat("0123456789", 2000)
	w := transcode.NewWindow(strings.NewReader(text), int64(len(text)))
	for _, at := range []int{0, 1, 4090, 4096, 0, 15000, 19990, 7, 8000} {
		for _, n := range []int{0, 1, 10, 5000} {
			got, err := w.At(int64(at), n)
			if at+n > len(text) {
				if !errors.Is(err, transcode.ErrTruncated) {
					t.Errorf("%d at %d: %v", n, at, err)
				}
			} else if err != nil || string(got) != text[at:at+n] {
				t.Errorf("%d at %d: %.20q, %v", n, at, got, err)
			}
		}
	}
	if _, err := transcode.NewWindow(strings.NewReader("short"), 100).At(2, 50); !errors.Is(err, transcode.ErrTruncated) {
		t.Errorf("a file that has become shorter: %v", err)
	}
	broken := errors.New("broken disk")
	if _, err := transcode.NewWindow(failing{broken}, 100).At(2, 50); !errors.Is(err, broken) {
		t.Errorf("a broken disk: %v", err)
	}
	if _, err := transcode.ReadHead(failing{broken}, 100, 50); !errors.Is(err, broken) {
		t.Errorf("a broken disk: %v", err)
	}
	if _, err := transcode.ReadHead(failing{io.EOF}, 100, 50); !errors.Is(err, transcode.ErrTruncated) {
		t.Errorf("an empty file: %v", err)
	}
	if b, err := transcode.ReadHead(strings.NewReader("abc"), 3, 50); err != nil || string(b) != "abc" {
		t.Errorf("a short file: %q, %v", b, err)
	}
}
