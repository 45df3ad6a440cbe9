package kernel

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The oracle is libjpeg-turbo itself, through its tj functions.
const (
	pixelRGB  = 0
	pixelGrey = 6
	pixelCMYK = 11

	flagAccurateDCT = 4096
)

var library struct {
	once       sync.Once
	err        error
	init       func() uintptr
	decompress func(handle uintptr, src *byte, size uintptr, dst *byte, width, pitch, height, format, flags int32) int32
	text       func(handle uintptr) string
	destroy    func(handle uintptr) int32
}

// oracle decodes a file to width by height pixels of a format, which is smaller
// than the picture where the library scales.
func oracle(t testing.TB, file []byte, width, height, channels int, format int32) []byte {
	t.Helper()
	l := &library
	l.once.Do(func() {
		lib, err := purego.Dlopen("libturbojpeg.so.0", purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			l.err = err
			return
		}
		purego.RegisterLibFunc(&l.init, lib, "tjInitDecompress")
		purego.RegisterLibFunc(&l.decompress, lib, "tjDecompress2")
		purego.RegisterLibFunc(&l.text, lib, "tjGetErrorStr2")
		purego.RegisterLibFunc(&l.destroy, lib, "tjDestroy")
	})
	if l.err != nil {
		t.Fatalf("libturbojpeg.so.0 is missing (Debian: apt install libturbojpeg0): %v", l.err)
	}
	h := l.init()
	defer l.destroy(h)
	out := make([]byte, width*height*channels)
	if l.decompress(h, unsafe.SliceData(file), uintptr(len(file)), unsafe.SliceData(out),
		int32(width), int32(width*channels), int32(height), format, flagAccurateDCT) != 0 {
		t.Fatalf("libjpeg-turbo: %s", l.text(h))
	}
	return out
}
