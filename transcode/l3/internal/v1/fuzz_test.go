package v1

import (
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// FuzzDecode gives anything to the decoder. What it makes something of, it
// must make that of again when it has been encoded.
func FuzzDecode(f *testing.F) {
	for i, patch := range []int{1, 3, 8, 40, 64, 100} {
		p := newPicture(testRand(uint64(i)), 1+7*i, 3+i, 1+i%2*2, len(contents)-1-i)
		f.Add(encode(f, p, patch))
	}
	f.Add(file32("LLL.", 1<<30, 1<<30, 1))
	f.Fuzz(func(t *testing.T, src []byte) {
		if checkKind(t, src) != nil {
			return
		}
		h, _ := Parse(src)
		p, err := decode(src)
		testenv.Must(t, err)
		checkRoundTrip(t, p, h.Patch)
	})
}

// FuzzRoundTrip encodes pictures of any samples.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{0}, uint16(1), uint8(64), true)
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"), uint16(3), uint8(2), false)
	f.Add(newPicture(testRand(1), 40, 6, 3, 6).pix, uint16(40), uint8(33), true)
	f.Fuzz(func(t *testing.T, pix []byte, width uint16, patch uint8, colour bool) {
		channels := 1
		if colour {
			channels = 3
		}
		if width == 0 || patch == 0 || len(pix) > 1<<16 {
			return
		}
		height := len(pix) / (int(width) * channels)
		if height == 0 {
			return
		}
		checkRoundTrip(t, &picture{int(width), height, channels, pix[:int(width)*height*channels]}, int(patch))
	})
}
