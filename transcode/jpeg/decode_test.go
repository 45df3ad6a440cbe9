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
		s, err := Transcode(read(t, file), Options{})
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
				s, err := Transcode(src, Options{})
				if err != nil || !bytes.Equal(s.Data, want[k]) {
					t.Errorf("%s: wrong result (%v)", file, err)
				}
				// A failure must not leave anything behind.
				if _, err := Transcode(src[:len(src)/2], Options{}); err == nil {
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

// TestDecode checks coefficients against each other: those of a baseline file are those of
// its progressive version.
func TestDecode(t *testing.T) {
	for _, name := range []string{"ycc420", "ycc444", "ycc422rst", "grey", "rgb", "q1", "q100", "separate"} {
		src := testenv.Picture(t, name+".jpg")
		want, err := Transcode(src, Options{})
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
		s, err := Transcode(read(t, file), Options{})
		testenv.Must(t, err)
		checkSequential(t, append(bytes.Clone(s.Data[:s.Ends[i%len(s.Ends)]]), EOI[:]...))
	}
}

// TestLevels spells the table out.
func TestLevels(t *testing.T) {
	for _, test := range []struct {
		components int
		model      ColorModel
		levels     [10]uint8
		scans      int
	}{
		{3, ModelYCbCr, [10]uint8{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10},
		{1, ModelGrey, [10]uint8{1, 2, 2, 2, 3, 4, 5, 5, 5, 6}, 6},
		{3, ModelRGB, [10]uint8{1, 4, 4, 4, 7, 10, 11, 11, 11, 14}, 14},
		{2, ModelUnknown, [10]uint8{1, 3, 3, 3, 5, 7, 8, 8, 8, 10}, 10},
		{4, ModelCMYK, [10]uint8{1, 5, 5, 5, 9, 13, 14, 14, 14, 18}, 18},
	} {
		levels, scans := levelsOf(test.components, test.model)
		if levels != test.levels || scans != test.scans {
			t.Errorf("%d components, %v: %v of %d scans, want %v of %d", test.components, test.model, levels, scans, test.levels, test.scans)
		}
		if n := len(defaultScript(test.components, test.model)); n != scans {
			t.Errorf("%d components, %v: the script has %d scans, not %d", test.components, test.model, n, scans)
		}
	}
}

// TestLevelsDeliverTheSame checks the meaning of the levels: at each of them, a
// component has the bits that luma has in a YCbCr picture.
func TestLevelsDeliverTheSame(t *testing.T) {
	// delivered returns how many low bits of a component are missing after the
	// given scans, 9 where nothing is there.
	delivered := func(script []scan, component int) (missing [64]int) {
		for k := range missing {
			missing[k] = 9
		}
		for _, s := range script {
			if s.component == component || s.component == allComponents {
				for k := s.ss; k <= s.se; k++ {
					missing[k] = s.al
				}
			}
		}
		return missing
	}
	luma := defaultScript(3, ModelYCbCr)
	for components, model := range map[int]ColorModel{1: ModelGrey, 2: ModelUnknown, 3: ModelRGB, 4: ModelCMYK} {
		script := defaultScript(components, model)
		levels, _ := levelsOf(components, model)
		for i, n := range levels {
			for c := range components {
				if got, want := delivered(script[:n], c), delivered(luma[:i+1], 0); got != want {
					t.Errorf("level %d of %v, component %d: missing bits %v, luma %v", i+1, model, c, got, want)
				}
			}
		}
	}
}

// TestCuts checks that the file can be cut after each scan, as far as libjpeg is
// concerned, and that all scans give the pixels of the original.
func TestCuts(t *testing.T) {
	inputs := map[string][]byte{}
	for _, options := range []string{"-sample 2x2", "-sample 1x1 -restart 1", "-grayscale", "-rgb", "-sample 2x1 -quality 100"} {
		inputs[options] = synthetic(t, 100, 75, options)
	}
	for name, src := range inputs {
		s := checkOracle(t, src)
		if want := int(s.Levels[9]); len(s.Ends) != want || s.Ends[want-1]+2 != len(s.Data) {
			t.Errorf("%s: level 10 is %d of %d scans", name, want, len(s.Ends))
		}
		for k, end := range s.Ends {
			cut := append(bytes.Clone(s.Data[:end]), EOI[:]...)
			pixels, warnings := tool(t, cut, "djpeg", "-pnm")
			if len(warnings) > 0 {
				t.Errorf("%s, %d scans: djpeg says %s", name, k+1, warnings)
			}
			if k < len(s.Ends)-1 {
				continue
			}
			if original, _ := tool(t, src, "djpeg", "-pnm"); !bytes.Equal(pixels, original) {
				t.Errorf("%s: pixels differ from the original's", name)
			}
		}
	}
}

// TestCutsCanBeTranscoded checks that a cut file is a valid file to us as well.
func TestCutsCanBeTranscoded(t *testing.T) {
	s, err := Transcode(synthetic(t, 100, 75, "-sample 2x2"), Options{})
	testenv.Must(t, err)
	for _, end := range s.Ends {
		checkOracle(t, append(bytes.Clone(s.Data[:end]), EOI[:]...))
	}
}
