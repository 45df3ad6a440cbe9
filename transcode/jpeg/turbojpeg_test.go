package jpeg

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pipefs/pipefs/internal/testenv"
)

// turbojpeg is libjpeg-turbo, asked in this process through its tj functions.
var turbojpeg struct {
	sync.Mutex
	err        error
	handle     uintptr
	decompress func(handle uintptr, src *byte, size uintptr, dst *byte, width, pitch, height, format, flags int32) int32
	text       func(handle uintptr) string
	code       func(handle uintptr) int32

	transformer uintptr
	transform   func(handle uintptr, src *byte, size uintptr, n int32, dst *uintptr, dstSize *uintptr, transforms *tjTransform, flags int32) int32
	free        func(p uintptr)
}

// tjTransform is tjtransform of turbojpeg.h.
type tjTransform struct {
	_       [4]int32 // the region
	_       int32    // the operation: none
	options int32
	_, _    uintptr // data, filter
}

func openTurbojpeg(t testing.TB) {
	t.Helper()
	l := &turbojpeg
	if l.handle == 0 && l.err == nil {
		var lib uintptr
		if lib, l.err = purego.Dlopen("libturbojpeg.so.0", purego.RTLD_NOW|purego.RTLD_LOCAL); l.err == nil {
			var open func() uintptr
			purego.RegisterLibFunc(&open, lib, "tjInitDecompress")
			purego.RegisterLibFunc(&l.decompress, lib, "tjDecompress2")
			purego.RegisterLibFunc(&l.transform, lib, "tjTransform")
			purego.RegisterLibFunc(&l.free, lib, "tjFree")
			var openTransform func() uintptr
			purego.RegisterLibFunc(&openTransform, lib, "tjInitTransform")
			l.transformer = openTransform()
			purego.RegisterLibFunc(&l.text, lib, "tjGetErrorStr2")
			purego.RegisterLibFunc(&l.code, lib, "tjGetErrorCode")
			l.handle = open()
		}
	}
	if l.err != nil {
		t.Fatalf("libturbojpeg.so.0 is missing (Debian: apt install libturbojpeg0): %v", l.err)
	}
}

// transform transcodes a file to a progressive one with libjpeg-turbo, and returns
// its size.
func transform(t testing.TB, src []byte) int {
	t.Helper()
	const optionProgressive = 32
	l := &turbojpeg
	l.Lock()
	defer l.Unlock()
	openTurbojpeg(t)
	var out, size uintptr
	how := tjTransform{options: optionProgressive}
	if l.transform(l.transformer, unsafe.SliceData(src), uintptr(len(src)), 1, &out, &size, &how, 0) != 0 {
		t.Fatal(l.text(l.transformer))
	}
	l.free(out)
	return int(size)
}

// decompress decodes a file into m, as large as m says, with libjpeg-turbo. A
// warning, with which the pixels are complete, begins with "warning".
func decompress(t testing.TB, src []byte, m *Image) error {
	t.Helper()
	const (
		formatRGB, formatCMYK   = 0, 11
		accurateDCT, limitScans = 4096, 32768
	)
	l := &turbojpeg
	l.Lock()
	defer l.Unlock()
	openTurbojpeg(t)
	format := int32(formatRGB)
	if m.Channels == 4 {
		format = formatCMYK
	}
	if l.decompress(l.handle, unsafe.SliceData(src), uintptr(len(src)), unsafe.SliceData(m.Pix), int32(m.Width),
		int32(m.Width*m.Channels), int32(m.Height), format, accurateDCT|limitScans) == 0 {
		return nil
	}
	if l.code(l.handle) == 0 {
		return fmt.Errorf("warning: %s", l.text(l.handle))
	}
	return fmt.Errorf("%s", l.text(l.handle))
}

// ambiguous reports whether the library, which is not told a scale but takes the
// largest one of which the result is not too large, takes another one than scale.
// It has one for each eighth.
func ambiguous(width, height, scale int) bool {
	w, h := ScaledSize(width, height, scale)
	eighths := 8/scale + 1
	return scale > 1 && ceilDiv(width*eighths, 8) == w && ceilDiv(height*eighths, 8) == h
}

// wantPixels returns the pixels of libjpeg-turbo, for a file of the given size, or
// nil where it cannot be asked.
func wantPixels(t testing.TB, src []byte, width, height, channels, scale int) *Image {
	t.Helper()
	w, h := ScaledSize(width, height, scale)
	m := &Image{w, h, channels, make([]byte, w*h*channels)}
	if ambiguous(width, height, scale) {
		if channels == 4 {
			return nil
		}
		ppm, errs := tool(t, src, "djpeg", "-ppm", "-scale", fmt.Sprintf("%d/8", 8/scale))
		if len(errs) > 0 {
			t.Fatalf("djpeg: %s", errs)
		}
		pix := ppm[len(ppm)-w*h:]
		if ppm[1] == '6' {
			copy(m.Pix, ppm[len(ppm)-3*w*h:])
			return m
		}
		for i := range m.Pix {
			m.Pix[i] = pix[i/3]
		}
		return m
	}
	if err := decompress(t, src, m); err != nil {
		t.Fatalf("libjpeg-turbo: %v", err)
	}
	return m
}

// checkPixels compares the pixels of a file at all scales with libjpeg-turbo's.
func checkPixels(t testing.TB, src []byte) {
	t.Helper()
	c, err := coefficientsOf(src, Limits{})
	testenv.Must(t, err)
	channels := 3
	if len(c.Components) == 4 {
		channels = 4
	}
	for _, scale := range []int{1, 2, 4, 8} {
		got, err := DecodePixels(src, scale, Limits{})
		if err != nil {
			t.Fatalf("scale 1/%d: %v", scale, err)
		}
		want := wantPixels(t, src, c.Width, c.Height, channels, scale)
		if want == nil {
			continue
		}
		samePixels(t, fmt.Sprintf("scale 1/%d", scale), got, want)
		pixelsCompared++
	}
}

var pixelsCompared int

func samePixels(t testing.TB, name string, got, want *Image) {
	t.Helper()
	if got.Width != want.Width || got.Height != want.Height || got.Channels != want.Channels {
		t.Fatalf("%s: %d×%d of %d channels, want %d×%d of %d", name, got.Width, got.Height, got.Channels,
			want.Width, want.Height, want.Channels)
	}
	if bytes.Equal(got.Pix, want.Pix) {
		return
	}
	at, n := firstDifference(got.Pix, want.Pix), 0
	for i := range want.Pix {
		if got.Pix[i] != want.Pix[i] {
			n++
		}
	}
	pixel := at / want.Channels
	t.Fatalf("%s: %d of %d bytes differ; first at x %d, y %d, channel %d: %d, want %d", name, n, len(want.Pix),
		pixel%want.Width, pixel/want.Width, at%want.Channels, got.Pix[at], want.Pix[at])
}

// The tests compare with the programs of libjpeg-turbo, which is how this
// package defines correctness, so they fail where those are missing.

// tool runs one of libjpeg-turbo's programs and returns what it writes to
// standard output and to standard error.
func tool(t testing.TB, stdin []byte, name string, args ...string) (stdout, stderr []byte) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed (Debian: apt install libjpeg-turbo-progs): %v", name, err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	// Status 2 is for warnings.
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 2 {
		t.Fatalf("%s %v: %v: %s", name, args, err, errs.Bytes())
	}
	return out.Bytes(), errs.Bytes()
}

// photographs returns the pictures of the BSDS set beside the repository.
func photographs(t testing.TB) []string {
	t.Helper()
	return testenv.Shared(t, "bsds/*.jpg")
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	testenv.Must(t, err)
	return b
}

// checkOracle compares Progressive with jpegtran.
func checkOracle(t testing.TB, src []byte) Scans {
	t.Helper()
	want, _ := tool(t, src, "jpegtran", "-copy", "all", "-progressive")
	got, err := Transcode(src, Options{})
	if err != nil {
		t.Fatalf("Progressive: %v", err)
	}
	if !bytes.Equal(got.Data, want) {
		t.Fatalf("result differs from jpegtran's at byte %d; lengths %d and %d", firstDifference(got.Data, want), len(got.Data), len(want))
	}
	return got
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func TestPictures(t *testing.T) {
	for _, file := range testenv.Pictures(t, "*.jpg") {
		checkOracle(t, read(t, file))
	}
}

func TestPhotographs(t *testing.T) {
	for _, file := range photographs(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src := read(t, file)
			s := checkOracle(t, src)
			again := checkOracle(t, s.Data)
			if !bytes.Equal(again.Data, s.Data) {
				t.Error("transcoding the result again changes it")
			}
		})
	}
}
