package jpeg

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// fuzzLimits keep the memory of a fuzzing worker small.
var fuzzLimits = Limits{MaxPixels: 1 << 20}

// seeds adds the golden files, and parts of them.
func seeds(f *testing.F) {
	files := testenv.Pictures(f, "*.jpg")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
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
			h.Orientation < 0 || h.Orientation > 8 || h.ScanOffset+1 >= len(src) {
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
		s, err := Progressive(src, fuzzLimits)
		checkKind(t, err)
		if err != nil {
			return
		}
		again, err := Progressive(s.Data, fuzzLimits)
		if err != nil {
			t.Fatalf("the result cannot be transcoded again: %v", err)
		}
		if !bytes.Equal(again.Data, s.Data) {
			t.Fatalf("transcoding again changes the result at byte %d", firstDifference(again.Data, s.Data))
		}
		if again.Skipped != 0 {
			t.Errorf("%d bytes of the result belong to nothing", again.Skipped)
		}
		ends, err := SplitScans(s.Data, fuzzLimits)
		if err != nil || len(ends) != len(s.Ends) || int(s.Levels[9]) != len(s.Ends) {
			t.Fatalf("SplitScans: %v, %v; want %v", ends, err, s.Ends)
		}
		for i := range ends {
			if ends[i] != s.Ends[i] {
				t.Fatalf("SplitScans: %v; want %v", ends, s.Ends)
			}
		}
		// The header must not change in what decides about pixels.
		a, err1 := ParseHeader(src, fuzzLimits)
		b, err2 := ParseHeader(s.Data, fuzzLimits)
		if err1 != nil || err2 != nil || a.Model != b.Model || a.Width != b.Width || a.Height != b.Height || a.Orientation != b.Orientation {
			t.Fatalf("header %+v (%v) became %+v (%v)", a, err1, b, err2)
		}
	})
}

func FuzzSplitScans(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		ends, err := SplitScans(src, fuzzLimits)
		checkKind(t, err)
		if err != nil {
			if s, err2 := Progressive(src, fuzzLimits); err2 == nil && !errors.Is(err, transcode.ErrUnsupported) {
				t.Fatalf("%v, but Progressive makes %d scans of it", err, len(s.Ends))
			}
			return
		}
		last := 0
		for _, end := range ends {
			if end <= last || end+2 > len(src) || src[end] != 0xFF {
				t.Fatalf("ends %v of %d bytes", ends, len(src))
			}
			last = end
			// Every cut must split into the same scans.
			cut, err := SplitScans(append(bytes.Clone(src[:end]), EOI[:]...), fuzzLimits)
			if err != nil || cut[len(cut)-1] != end {
				t.Fatalf("cut at %d: %v, %v", end, cut, err)
			}
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
		if err != nil {
			f.Fatal(err)
		}
		s, err := Transcode(b, Options{Reconstruct: true})
		if err != nil {
			f.Fatal(err)
		}
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
		a, err := Decode(src, fuzzLimits)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Decode(out, fuzzLimits)
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
