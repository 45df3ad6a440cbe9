package jpeg

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// checkReconstruction checks that a file comes back from its scans, byte for byte, and
// returns the length of its reconstruction data.
func checkReconstruction(t testing.TB, src []byte, cuts Cuts) int {
	t.Helper()
	s, err := Transcode(src, Options{Cuts: cuts, Reconstruct: true})
	testenv.Must(t, err)
	if s.Reconstruction == nil {
		t.Fatal("the file has no reconstruction data")
	}
	got, err := Restore(s.Data, s.Reconstruction, Limits{})
	if err != nil {
		t.Fatalf("Restore: %v", err)
	}
	if !bytes.Equal(got, src) {
		t.Fatalf("result differs at byte %d; lengths %d and %d", firstDifference(got, src), len(got), len(src))
	}
	return len(s.Reconstruction)
}

func TestReconstructionPhotographs(t *testing.T) {
	total, scans, more := 0, 0, 0
	for _, file := range photographs(t) {
		src := read(t, file)
		n := checkReconstruction(t, src, 0)
		s, _ := Transcode(src, Options{})
		total, scans, more = total+len(src), scans+len(s.Data), more+n
	}
	t.Logf("%d bytes become %d and %d of reconstruction data", total, scans, more)
	if scans+more >= total {
		t.Error("scans and reconstruction data are not smaller than the files")
	}
}

// TestReconstructionUnusual checks files as other programs than libjpeg write them.
func TestReconstructionUnusual(t *testing.T) {
	src := synthetic(t, 100, 75, "-sample 2x2 -quality 90 -restart 5B")
	s, err := Transcode(src, Options{})
	testenv.Must(t, err)
	var metadata []byte
	for _, p := range parts {
		metadata = append(metadata, p...)
	}
	sos := bytes.Index(src, []byte{0xFF, mSOS})
	for name, file := range map[string][]byte{
		"trailing bytes":          append(bytes.Clone(src), bytes.Repeat([]byte("trailing"), 1000)...),
		"zeros behind it":         append(bytes.Clone(src), make([]byte, 30_000)...),
		"a million zeros":         append(bytes.Clone(src), make([]byte, 1_000_000)...),
		"many second pictures":    bytes.Repeat(src, 50),
		"comments of zeros":       append(append(bytes.Clone(src[:sos]), bytes.Repeat(segment(mCOM, string(make([]byte, 60_000))), 20)...), src[sos:]...),
		"a second picture":        append(bytes.Clone(src), src...),
		"many segments":           append(append(bytes.Clone(src[:sos]), metadata...), src[sos:]...),
		"comment before EOI":      append(append(bytes.Clone(src[:len(src)-2]), segment(mCOM, "late")...), EOI[:]...),
		"bytes between segments":  append(append(bytes.Clone(src[:sos]), "garbage"...), src[sos:]...),
		"fill bytes":              append(append(bytes.Clone(src[:sos]), 0xFF, 0xFF), src[sos:]...),
		"RST after the last MCU":  append(append(bytes.Clone(src[:len(src)-2]), 0xFF, mRST0), EOI[:]...),
		"cut after three scans":   append(bytes.Clone(s.Data[:s.Ends[2]]), EOI[:]...),
		"its own transcoded form": s.Data,
	} {
		t.Run(name, func(t *testing.T) { checkReconstruction(t, file, 0) })
	}
}

// TestReconstructionDummies changes what lies beyond the edges and the bits that fill up
// bytes, as cameras and editors write them.
func TestReconstructionDummies(t *testing.T) {
	for _, options := range []string{"-sample 2x2", "-sample 2x2 -restart 1", "-sample 4x1", "-sample 1x2 -restart 2B", "-sample 2x2,2x1,1x2", "-rgb -sample 2x2,1x1,2x2"} {
		src := synthetic(t, 35, 19, options)
		for name, value := range map[string]byte{"ones": 0xFF, "zeros": 0, "mixed": 0x55} {
			t.Run(fmt.Sprint(options, "/", name), func(t *testing.T) {
				disturbed := disturb(t, src, value)
				checkReconstruction(t, disturbed, 0)
				checkSequential(t, disturbed)
			})
		}
	}
}

// disturb returns src with other dummy blocks and other padding bits.
func disturb(t testing.TB, src []byte, pad byte) []byte {
	t.Helper()
	w := new(workspace)
	notes := &trace{}
	w.dec.trace = notes
	testenv.Must(t, w.dec.decode(src, Limits{}, &w.c))
	n := 0
	for i := range w.c.Components {
		p := &w.c.Components[i]
		p.eachDummy(func(at, before int) {
			n++
			p.Blocks[at] = Block{0: p.Blocks[before][0] + int16(n%5) - 2, 1: int16(n%7 - 3), 9: -1}
			p.Nonzero[at] = 1 << 9
			if n%7 != 3 {
				p.Nonzero[at] |= 1 << 1
			}
		})
	}
	r := rebuilder{e: &w.enc, skeleton: skeleton(src, notes.scans), pads: pads{values: bytes.Repeat([]byte{pad}, 1000)}}
	out, err := r.run(&w.dec, &w.c, Limits{}, len(src))
	testenv.Must(t, err)
	if n == 0 || bytes.Equal(out, src) {
		t.Fatal("nothing was changed")
	}
	return out
}

// TestReconstructionDamaged checks that damaged reconstruction data never give a wrong file.
func TestReconstructionDamaged(t *testing.T) {
	src := synthetic(t, 35, 19, "-sample 2x2")
	s, err := Transcode(disturb(t, src, 0x55), Options{Reconstruct: true})
	testenv.Must(t, err)
	want, err := Restore(s.Data, s.Reconstruction, Limits{})
	testenv.Must(t, err)
	for i := range s.Reconstruction {
		for bit := range 8 {
			u := bytes.Clone(s.Reconstruction)
			u[i] ^= 1 << bit
			if got, err := Restore(s.Data, u, Limits{}); err == nil && !bytes.Equal(got, want) {
				t.Fatalf("byte %d, bit %d: a wrong file", i, bit)
			}
		}
		if _, err := Restore(s.Data, s.Reconstruction[:i], Limits{}); err == nil {
			t.Fatalf("cut to %d bytes: no error", i)
		}
	}
}

func TestCutsScripts(t *testing.T) {
	for _, options := range []string{"-sample 2x2", "-grayscale", "-rgb", "-sample 1x1 -quality 100"} {
		src := synthetic(t, 100, 75, options)
		all, err := Transcode(src, Options{})
		testenv.Must(t, err)
		full, _ := tool(t, src, "djpeg", "-pnm")
		for cuts := Cuts(0); cuts < 1<<10; cuts += 2 {
			c := cuts | 1<<10
			s, err := Transcode(src, Options{Cuts: c})
			if err != nil {
				t.Fatalf("%v: %v", c.Levels(), err)
			}
			if len(s.Ends) > len(all.Ends) || int(s.Levels[9]) != len(s.Ends) {
				t.Fatalf("%v: %d scans, levels %v", c.Levels(), len(s.Ends), s.Levels)
			}
			// The coefficients at each cut are those of the default script.
			for _, k := range c.Levels() {
				if cuts%64 != 0 && k != 10 {
					continue
				}
				same(t, fmt.Sprint(options, c.Levels(), " level ", k), cutAt(s, k), cutAt(all, k))
			}
		}
		for _, levels := range [][]int{{10}, {1}, {5}, {1, 2, 5}} {
			s, err := Transcode(src, Options{Cuts: CutsAt(levels...), Reconstruct: true})
			testenv.Must(t, err)
			t.Logf("%s, levels %v: %d scans instead of %d", options, levels, len(s.Ends), len(all.Ends))
			if pixels, warnings := tool(t, s.Data, "djpeg", "-pnm"); len(warnings) > 0 || !bytes.Equal(pixels, full) {
				t.Errorf("%s %v: djpeg shows something else: %s", options, levels, warnings)
			}
			checkReconstruction(t, src, CutsAt(levels...))
			if CutsAt(levels...).All() {
				t.Errorf("%v are not all levels", levels)
			}
		}
	}
}

func cutAt(s Scans, level int) []byte {
	return append(bytes.Clone(s.Data[:s.Ends[s.Levels[level-1]-1]]), EOI[:]...)
}

// same compares the coefficients of two files.
func same(t testing.TB, name string, a, b []byte) {
	t.Helper()
	ca, errA := coefficientsOf(a, Limits{})
	cb, errB := coefficientsOf(b, Limits{})
	if errA != nil || errB != nil {
		t.Fatal(name, errA, errB)
	}
	for i := range ca.Components {
		pa, pb := &ca.Components[i], &cb.Components[i]
		for at := range pa.Blocks {
			if pa.Blocks[at] != pb.Blocks[at] || pa.Nonzero[at] != pb.Nonzero[at] {
				t.Fatalf("%s: component %d, block %d differs", name, i, at)
			}
		}
	}
}

func TestCutsNearest(t *testing.T) {
	c := CutsAt(2, 5)
	var got []string
	for k := 1; k <= 10; k++ {
		got = append(got, fmt.Sprint(c.nearest(k)))
	}
	if s := strings.Join(got, " "); s != "2 2 2 2 5 5 5 5 5 10" {
		t.Error(s)
	}
	if !Cuts(0).All() || !CutsAt(1, 2, 3, 4, 5, 6, 7, 8, 9, 10).All() || c.All() {
		t.Error("All")
	}
}
