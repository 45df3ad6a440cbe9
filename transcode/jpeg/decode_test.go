package jpeg

import (
	"bytes"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestConcurrent makes sure that calls share nothing but working memory.
func TestConcurrent(t *testing.T) {
	files := testenv.Pictures(t, "*.jpg")
	want := make([][]byte, len(files))
	for i, file := range files {
		s, err := Progressive(read(t, file), Limits{})
		if err != nil {
			t.Fatal(file, err)
		}
		want[i] = s.Data
	}
	done := make(chan bool)
	for g := range 8 {
		go func() {
			for i := range 50 {
				k := (i + g) % len(files)
				file, src := files[k], read(t, files[k])
				s, err := Progressive(src, Limits{})
				if err != nil || !bytes.Equal(s.Data, want[k]) {
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
		src := testenv.Picture(t, name+".jpg")
		want, err := Progressive(src, Limits{})
		testenv.Must(t, err)
		a, err := coefficientsOf(src, Limits{})
		testenv.Must(t, err)
		b, err := coefficientsOf(want.Data, Limits{})
		testenv.Must(t, err)
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
		if err != nil || !bytes.Equal(s.Data, want.Data) {
			t.Errorf("%s: EncodeProgressive differs from Progressive (%v)", name, err)
		}
	}
}

// checkSequential compares Sequential with jpegtran.
func checkSequential(t testing.TB, src []byte) {
	t.Helper()
	want, _ := tool(t, src, "jpegtran", "-copy", "all", "-optimize")
	got, err := Sequential(src, Limits{})
	testenv.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Fatalf("result differs from jpegtran's at byte %d; lengths %d and %d", firstDifference(got, want), len(got), len(want))
	}
}

func TestSequential(t *testing.T) {
	for _, sampling := range samplings {
		for _, coding := range []string{"", "-restart 7B", "-progressive", "-quality 1", "-quality 100"} {
			for _, size := range [][2]int{{1, 1}, {17, 33}, {100, 75}} {
				checkSequential(t, synthetic(t, size[0], size[1], sampling+" "+coding))
			}
		}
	}
	for name := range scripts {
		checkSequential(t, synthetic(t, 100, 75, "-sample 2x2 -scans "+name))
	}
	checkSequential(t, disturb(t, synthetic(t, 35, 19, "-sample 2x2"), 0))
}

// TestSequentialOfCuts makes baseline files of each fidelity, from the scans of
// real photographs.
func TestSequentialOfCuts(t *testing.T) {
	for i, file := range photographs(t) {
		s, err := Progressive(read(t, file), Limits{})
		testenv.Must(t, err)
		checkSequential(t, append(bytes.Clone(s.Data[:s.Ends[i%len(s.Ends)]]), EOI[:]...))
	}
}
