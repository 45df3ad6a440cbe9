package mssim

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// python is the interpreter that distributions install the libraries for.
const python = "/usr/bin/python3"

//go:embed testdata/oracle.py
var oracle string

// ask runs the oracle, which leaves its pictures in a directory.
func ask(t *testing.T, dir string) []byte {
	t.Helper()
	cmd := exec.Command(python, "-c", oracle, dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		hint := ""
		if _, missing := os.Stat(python); missing != nil || strings.Contains(stderr.String(), "ModuleNotFoundError") {
			hint = "\nthis test compares with what NumPy and Pillow compute: install python3-torchvision"
		}
		t.Fatalf("%s: %v\n%s%s", python, err, stderr.Bytes(), hint)
	}
	return out
}

// TestOracle compares with a plain implementation in another language.
func TestOracle(t *testing.T) {
	testenv.Slow(t)
	dir := t.TempDir()
	n, worst := 0, 0.0
	for line := range bytes.Lines(ask(t, dir)) {
		var c struct {
			Name, Mode    string
			Width, Height int
			Want          float64
		}
		testenv.Must(t, json.Unmarshal(line, &c))
		load := func(suffix string) *transcode.Pixels {
			b, err := os.ReadFile(filepath.Join(dir, c.Name+suffix))
			testenv.Must(t, err)
			mode := transcode.ModeRGB
			if c.Mode == "L" {
				mode = transcode.ModeL
			}
			return &transcode.Pixels{Width: c.Width, Height: c.Height, Mode: mode, Pix: b}
		}
		got, err := Compare(load(".a"), load(".b"))
		testenv.Must(t, err)
		difference := math.Abs(got - c.Want)
		if difference > 1e-9 {
			t.Errorf("%s: %.12f, want %.12f", c.Name, got, c.Want)
		}
		worst = max(worst, difference)
		n++
	}
	if n != 38 {
		t.Errorf("%d pairs", n)
	}
	t.Logf("%d pairs, no further apart than %.1e", n, worst)
}

// random makes a picture of gradients and noise.
func random(rng *rand.Rand, mode transcode.Mode, width, height int) *transcode.Pixels {
	px := &transcode.Pixels{Width: width, Height: height, Mode: mode}
	px.Pix = make([]byte, px.Len())
	noise := 1 + rng.IntN(200)
	for i := range px.Pix {
		px.Pix[i] = byte(i/5 + rng.IntN(noise))
	}
	return px
}

// TestProperties wants what holds of any pictures.
func TestProperties(t *testing.T) {
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		width, height := Least+rng.IntN(100), Least+rng.IntN(100)
		mode := []transcode.Mode{transcode.ModeRGB, transcode.ModeL}[rng.IntN(2)]
		a, b := random(rng, mode, width, height), random(rng, mode, width, height)
		switch same, err := Compare(a, a); {
		case err != nil:
			t.Fatal(err)
		case same != 1:
			t.Errorf("%dx%d with itself: %v", width, height, same)
		}
		there, _ := Compare(a, b)
		back, _ := Compare(b, a)
		if there != back || !(there >= 0 && there < 1) {
			t.Errorf("%dx%d: %v, turned round %v", width, height, there, back)
		}
	}
	// Nothing but black: no variance, and no mean.
	black := &transcode.Pixels{Width: Least, Height: Least, Mode: transcode.ModeL, Pix: make([]byte, Least*Least)}
	if got, err := Compare(black, black); got != 1 || err != nil {
		t.Errorf("black: %v, %v", got, err)
	}
}

// TestConcurrent wants buffers not to be shared, nor to remember.
func TestConcurrent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var pairs [6][2]*transcode.Pixels
	var want [len(pairs)]float64
	for i := range pairs {
		for j := range pairs[i] {
			pairs[i][j] = random(rng, transcode.ModeRGB, Least+i%3, Least+i)
		}
		want[i], _ = Compare(pairs[i][0], pairs[i][1])
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for i := range 12 {
				k := (i + n) % len(pairs)
				if got, err := Compare(pairs[k][0], pairs[k][1]); got != want[k] || err != nil {
					t.Errorf("%v, %v, want %v", got, err, want[k])
				}
			}
		})
	}
	wg.Wait()
}

func TestRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	good := random(rng, transcode.ModeRGB, 200, 200)
	short := *good
	short.Pix = short.Pix[:100]
	for name, b := range map[string]*transcode.Pixels{
		"size": random(rng, transcode.ModeRGB, 200, 201), "mode": random(rng, transcode.ModeL, 200, 200), "short": &short,
	} {
		if _, err := Compare(good, b); err == nil || errors.Is(err, ErrSmall) {
			t.Errorf("%s: %v", name, err)
		}
	}
	palette := random(rng, transcode.ModeP, 200, 200)
	if _, err := Compare(palette, palette); err == nil || errors.Is(err, ErrSmall) {
		t.Errorf("palette: %v", err)
	}
	for _, side := range []int{1, 100, Least - 1} {
		small := random(rng, transcode.ModeRGB, side, 1000)
		if _, err := Compare(small, small); !errors.Is(err, ErrSmall) {
			t.Errorf("side %d: %v", side, err)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := random(rng, transcode.ModeRGB, 500, 375), random(rng, transcode.ModeRGB, 500, 375)
	b.SetBytes(int64(len(x.Pix)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compare(x, y); err != nil {
			b.Fatal(err)
		}
	}
}
