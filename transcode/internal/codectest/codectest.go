// Package codectest holds what the fuzz targets of all codecs demand.
package codectest

import (
	"bytes"
	"context"
	"runtime"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// RoundTrip demands of a decoder that it agrees with its own Probe on whatever
// it decodes, that a region is what it is in the whole picture, and that the pixels come back from what encode makes of them, if it is not nil.
// Input that cannot be decoded is fine: it must only not panic.
func RoundTrip(t *testing.T, d transcode.Decoder, src []byte, lim transcode.Limits, encode func(*transcode.Pixels) ([]byte, error)) {
	t.Helper()
	info, probeErr := d.Probe(bytes.NewReader(src), int64(len(src)), lim)
	px, err := d.Decode(context.Background(), src, lim)
	if err != nil {
		return
	}
	if probeErr != nil || info.Width != px.Width || info.Height != px.Height || info.Mode != px.Mode || len(px.Pix) != px.Len() {
		t.Fatalf("probe says %+v, %v; decoded %v %dx%d", info, probeErr, px.Mode, px.Width, px.Height)
	}
	Regions(t, d, src, lim, 3)
	if encode == nil {
		return
	}
	b, err := encode(px)
	testenv.Must(t, err)
	back, err := d.Decode(context.Background(), b, lim)
	if err != nil || !bytes.Equal(back.Pix, px.Pix) {
		t.Fatalf("read back: %v", err)
	}
}

// GuardedUntilEnd is Guarded for as long as the test runs.
func GuardedUntilEnd(t testing.TB, n int, atEnd bool) []byte {
	t.Helper()
	b, free := Guarded(t, n, atEnd)
	t.Cleanup(free)
	return b
}

// Bench runs do again and again; one call is about size bytes of samples. The rate is
// also reported for each second of processor time: on a machine that is shared, the time
// that passes says less.
func Bench(b *testing.B, size int, do func()) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		do()
	}
	used := cpuTime(b) - before
	b.ReportMetric(float64(size)*float64(b.N)/used.Seconds()/1e6, "MB/cpu-s")
}

// BenchmarkDecode decodes a file of so many bytes of pixels.
func BenchmarkDecode(b *testing.B, d transcode.Decoder, src []byte, pixels int) {
	Bench(b, pixels, func() {
		if _, err := d.Decode(context.Background(), src, transcode.Limits{}); err != nil {
			b.Fatal(err)
		}
	})
}

// Form is one of the forms that code has, in Go and in assembly; Use chooses it.
type Form struct {
	Name string
	Use  func()
}

// Forms are those that there are on this processor. The last one is in use by itself.
type Forms []Form

// FormsOf are the portable form and, where *accelerated says that the processor has it, the
// one for AVX2, or for NEON.
func FormsOf(accelerated *bool) Forms {
	if accelerated == nil || !*accelerated {
		return Forms{{"portable", func() {}}}
	}
	name := "avx2"
	if runtime.GOARCH == "arm64" {
		name = "neon"
	}
	return Forms{{"portable", func() { *accelerated = false }}, {name, func() { *accelerated = true }}}
}

// Each runs a test in all forms. The last one is in use afterwards.
func (f Forms) Each(t *testing.T, test func(t *testing.T)) {
	for _, form := range f {
		t.Run(form.Name, func(t *testing.T) {
			form.Use()
			test(t)
		})
	}
}
