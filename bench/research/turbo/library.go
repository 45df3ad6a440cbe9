package turbo

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pipefs/pipefs/transcode"
)

// sonames are tried in order. The first is what a package without headers
// installs.
var sonames = []string{"libturbojpeg.so.0", "libturbojpeg.so"}

// The parts of turbojpeg.h that are used here.
const (
	pixelRGB  = 0  // TJPF_RGB
	pixelCMYK = 11 // TJPF_CMYK

	flagAccurateDCT = 4096  // TJFLAG_ACCURATEDCT
	flagLimitScans  = 32768 // TJFLAG_LIMITSCANS: at most 500 scans

	codeWarning = 0 // TJERR_WARNING
)

// library holds the functions of libturbojpeg. An unsigned long is a uintptr on
// all systems that have these names.
var library struct {
	once sync.Once
	err  error

	initDecompress func() uintptr
	decompress     func(handle uintptr, src *byte, size uintptr, dst *byte, width, pitch, height, format, flags int32) int32
	errorText      func(handle uintptr) string
	errorCode      func(handle uintptr) int32
	destroy        func(handle uintptr) int32
}

// Available returns nil where the library is there, and otherwise an error that
// says what to install. It wraps [transcode.ErrUnsupported].
func Available() error {
	library.once.Do(func() { library.err = load(sonames) })
	return library.err
}

func load(names []string) error {
	// A thread is told why its own call failed, and the loader is asked after the call.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var first error
	for _, name := range names {
		lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return bind(lib)
		}
		if first == nil {
			first = err
		}
	}
	return transcode.Errorf(transcode.ErrUnsupported, "libjpeg-turbo is not there: install "+
		"libturbojpeg0 (Debian, Ubuntu) or libjpeg-turbo / turbojpeg (Fedora, Arch): %v", first)
}

// bind looks up the functions. A library without one of them is of another
// kind than its name says.
func bind(lib uintptr) error {
	for name, f := range map[string]any{
		"tjInitDecompress": &library.initDecompress,
		"tjDecompress2":    &library.decompress,
		"tjGetErrorStr2":   &library.errorText,
		"tjGetErrorCode":   &library.errorCode,
		"tjDestroy":        &library.destroy,
	} {
		address, err := purego.Dlsym(lib, name)
		if err != nil {
			return transcode.Errorf(transcode.ErrUnsupported, "libturbojpeg is older than version 2.0: %v", err)
		}
		purego.RegisterFunc(f, address)
	}
	return nil
}

// handle is a decompressor. The garbage collector destroys it.
type handle struct{ p uintptr }

var handles = sync.Pool{New: func() any {
	h := &handle{library.initDecompress()}
	if h.p != 0 {
		runtime.AddCleanup(h, func(p uintptr) { library.destroy(p) }, h.p)
	}
	return h
}}

// decompress decodes src to width by height pixels of the format. A problem
// that libjpeg carries on from is a warning, and dst is complete.
func decompress(dst, src []byte, width, height, channels int, format int32) (warning, failure string) {
	h := handles.Get().(*handle)
	defer handles.Put(h)
	if h.p == 0 {
		return "", "out of memory"
	}
	status := library.decompress(h.p, unsafe.SliceData(src), uintptr(len(src)), unsafe.SliceData(dst),
		int32(width), int32(width*channels), int32(height), format, flagAccurateDCT|flagLimitScans)
	if status == 0 {
		return "", ""
	}
	text := library.errorText(h.p)
	if library.errorCode(h.p) == codeWarning {
		return text, ""
	}
	return "", text
}
