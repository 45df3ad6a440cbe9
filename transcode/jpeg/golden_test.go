package jpeg

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew, with cjpeg and jpegtran")

// golden are the options of cjpeg that the golden inputs were made with.
var golden = map[string]string{
	"ycc420":      "-sample 2x2",
	"ycc444":      "-sample 1x1 -quality 90",
	"ycc422rst":   "-sample 2x1 -restart 2B",
	"grey":        "-grayscale",
	"rgb":         "-rgb",
	"q1":          "-quality 1",
	"q100":        "-quality 100 -sample 1x2",
	"progressive": "-progressive -sample 2x2",
	"deep":        "-scans deep -sample 1x1",
	"separate":    "-scans separate -sample 2x2",
	"exif":        "-sample 2x2",
}

// TestGolden needs no other program: testdata holds pairs of an input and of what
// jpegtran -copy all -progressive of libjpeg-turbo 2.1.5 makes of it.
func TestGolden(t *testing.T) {
	if *update {
		for name, options := range golden {
			src := synthetic(t, 67, 45, options)
			if name == "exif" {
				src = insert(strip(t, src), parts["EXIF"], parts["ICC 1 of 2"], parts["JFIF"], parts["comment"], parts["ICC 2 of 2"])
				src = append(src, "trailing"...)
			}
			out, _ := tool(t, src, "jpegtran", "-copy", "all", "-progressive")
			for suffix, b := range map[string][]byte{".jpg": src, ".want": out} {
				if err := os.WriteFile(filepath.Join("testdata", name+suffix), b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	files, _ := filepath.Glob("testdata/*.jpg")
	if len(files) != len(golden) {
		t.Fatalf("%d golden files, want %d", len(files), len(golden))
	}
	for _, file := range files {
		s, err := Progressive(read(t, file), Limits{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if want := read(t, strings.TrimSuffix(file, ".jpg")+".want"); !bytes.Equal(s.Data, want) {
			t.Errorf("%s: result differs from jpegtran's at byte %d", file, firstDifference(s.Data, want))
		}
	}
}

// TestConcurrent makes sure that calls share nothing but working memory.
func TestConcurrent(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.jpg")
	done := make(chan bool)
	for g := range 8 {
		go func() {
			for i := range 50 {
				file := files[(i+g)%len(files)]
				src := read(t, file)
				s, err := Progressive(src, Limits{})
				if err != nil || !bytes.Equal(s.Data, read(t, strings.TrimSuffix(file, ".jpg")+".want")) {
					t.Errorf("%s: wrong result (%v)", file, err)
				}
				// A failure must not leave anything behind.
				if _, err := Progressive(src[:len(src)/2], Limits{}); err == nil {
					t.Errorf("%s: half of it is accepted", file)
				}
			}
			done <- true
		}()
	}
	for range 8 {
		<-done
	}
}

// TestDecode checks the exported coefficients against each other: those of a
// baseline file are those of its progressive version.
func TestDecode(t *testing.T) {
	for _, name := range []string{"ycc420", "ycc444", "ycc422rst", "grey", "rgb", "q1", "q100", "separate"} {
		src := read(t, filepath.Join("testdata", name+".jpg"))
		a, err := Decode(src, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Decode(read(t, filepath.Join("testdata", name+".want")), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Components {
			p, q := &a.Components[i], &b.Components[i]
			if p.Quant != q.Quant || p.Wide != q.Wide || p.High != q.High || p.Stride*p.Rows != len(p.Blocks) {
				t.Errorf("%s, component %d: %dx%d blocks of %dx%d", name, i, p.Wide, p.High, q.Wide, q.High)
			}
			for y := range p.High {
				for x := range p.Wide {
					at := y*p.Stride + x
					if p.Blocks[at] != q.Blocks[y*q.Stride+x] {
						t.Fatalf("%s, component %d: block %d,%d differs", name, i, x, y)
					}
					nonzero := uint64(0)
					for k := 1; k < 64; k++ {
						if p.Blocks[at][k] != 0 {
							nonzero |= 1 << k
						}
					}
					if p.Nonzero[at] != nonzero || q.Nonzero[y*q.Stride+x] != nonzero {
						t.Fatalf("%s, component %d: Nonzero of block %d,%d is wrong", name, i, x, y)
					}
				}
			}
		}
		s, err := a.EncodeProgressive(0)
		if err != nil || !bytes.Equal(s.Data, read(t, filepath.Join("testdata", name+".want"))) {
			t.Errorf("%s: EncodeProgressive differs from Progressive (%v)", name, err)
		}
	}
}
