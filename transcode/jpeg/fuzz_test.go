package jpeg

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// fuzzLimits keep the memory of a fuzzing worker small.
var fuzzLimits = Limits{MaxPixels: 1 << 20}

// seeds adds the golden files, and parts of them.
func seeds(f *testing.F) {
	files := testenv.Pictures(f, "*.jpg")
	for _, file := range files {
		b, err := os.ReadFile(file)
		testenv.Must(f, err)
		if len(b) > 4000 {
			continue
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
		f.Add(append(bytes.Clone(b[:len(b)*3/4]), EOI[:]...))
	}
	f.Add([]byte("\xFF\xD8"))
}

func FuzzParseHeader(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		h, err := ParseHeader(src, fuzzLimits)
		checkKind(t, err)
		var e *Error
		if errors.As(err, &e) && e.Need != 0 && e.Need <= len(src) {
			t.Errorf("%d bytes needed, %d there", e.Need, len(src))
		}
		if err != nil {
			return
		}
		if h.Width <= 0 || h.Height <= 0 || int64(h.Width)*int64(h.Height) > fuzzLimits.MaxPixels || len(h.Components) == 0 ||
			h.Orientation > 8 || h.ScanOffset+1 >= len(src) {
			t.Errorf("%+v", h)
		}
		// No more of the file may matter than was asked for.
		if _, err := ParseHeader(src[:h.ScanOffset+2], fuzzLimits); err != nil {
			t.Errorf("with %d bytes: %v", h.ScanOffset+2, err)
		}
	})
}

func FuzzProgressive(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Transcode(src, Options{Limits: fuzzLimits})
		checkKind(t, err)
		if err != nil {
			return
		}
		again, err := Transcode(s.Data, Options{Limits: fuzzLimits})
		if err != nil {
			t.Fatalf("the result cannot be transcoded again: %v", err)
		}
		if !bytes.Equal(again.Data, s.Data) {
			t.Fatalf("transcoding again changes the result at byte %d", firstDifference(again.Data, s.Data))
		}
		// The header must not change in what decides about pixels.
		a, err1 := ParseHeader(src, fuzzLimits)
		b, err2 := ParseHeader(s.Data, fuzzLimits)
		if err1 != nil || err2 != nil || a.Model != b.Model || a.Width != b.Width || a.Height != b.Height || a.Orientation != b.Orientation {
			t.Fatalf("header %+v (%v) became %+v (%v)", a, err1, b, err2)
		}
	})
}

// FuzzReconstruction wants the file back, or an error, and never another file.
func FuzzReconstruction(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Transcode(src, Options{Limits: fuzzLimits, Reconstruct: true})
		if err != nil || s.Reconstruction == nil {
			return
		}
		got, err := Restore(s.Data, s.Reconstruction, fuzzLimits)
		checkKind(t, err)
		if err == nil && !bytes.Equal(got, src) {
			t.Fatalf("another file: it differs at byte %d", firstDifference(got, src))
		}
	})
}

// FuzzRestore takes any bytes for reconstruction data.
func FuzzRestore(f *testing.F) {
	var scans []Scans
	files := testenv.Pictures(f, "*.jpg")
	for i, file := range files {
		b, err := os.ReadFile(file)
		testenv.Must(f, err)
		s, err := Transcode(b, Options{Reconstruct: true})
		testenv.Must(f, err)
		scans = append(scans, s)
		f.Add(byte(i), s.Reconstruction)
	}
	f.Fuzz(func(t *testing.T, i byte, data []byte) {
		s := &scans[int(i)%len(scans)]
		_, err := Restore(s.Data, data, fuzzLimits)
		checkKind(t, err)
	})
}

// FuzzSequential wants the same coefficients in the sequential file.
func FuzzSequential(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		out, err := Sequential(src, fuzzLimits)
		checkKind(t, err)
		if err != nil {
			return
		}
		a, err := coefficientsOf(src, fuzzLimits)
		testenv.Must(t, err)
		b, err := coefficientsOf(out, fuzzLimits)
		if err != nil {
			t.Fatalf("the result cannot be decoded: %v", err)
		}
		for i := range a.Components {
			p, q := &a.Components[i], &b.Components[i]
			for y := range p.High {
				for x := range p.Wide {
					if p.Blocks[y*p.Stride+x] != q.Blocks[y*q.Stride+x] {
						t.Fatalf("component %d, block %d,%d differs", i, x, y)
					}
				}
			}
		}
	})
}

// FuzzPixels wants the pixels of libjpeg-turbo for all files that this package
// decodes and that libjpeg-turbo has no warning about.
func FuzzPixels(f *testing.F) {
	seeds(f)
	for _, options := range []string{"-quality 30", "-progressive -sample 1x2", "-sample 4x1 -restart 1", "-grayscale -progressive -quality 5"} {
		src := synthetic(f, 19, 35, options)
		f.Add(src)
		for _, cut := range cuts(f, src) {
			f.Add(cut)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, scale := range []int{1, 2, 4, 8} {
			got, err := DecodePixels(src, scale, fuzzLimits)
			checkKind(t, err)
			if err != nil {
				return
			}
			c, err := coefficientsOf(src, fuzzLimits)
			if err != nil || ambiguous(c.Width, c.Height, scale) {
				continue // it is damaged, and repaired, or the library has another scale
			}
			want := &Image{got.Width, got.Height, got.Channels, make([]byte, len(got.Pix))}
			if decompress(t, src, want) == nil {
				samePixels(t, "libjpeg-turbo", got, want)
			}
		}
	})
}
