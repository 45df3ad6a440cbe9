package pygpu

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/kernel"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// pictureCase is a file NAME.l3, and what the processor's decoder makes of it in NAME.pix.
type pictureCase struct {
	Name     string `json:"name"`
	Version  int    `json:"version"`
	Mode     string `json:"mode"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
	Channels int    `json:"channels"`
	Depth    int    `json:"depth"`
}

// headerCase is a part of headers.bin.
type headerCase struct {
	Begin int `json:"begin"`
	Len   int `json:"len"`
	// Error is what is wrong before the patches, and Broken that something is wrong
	// anywhere.
	Error  string `json:"error,omitempty"`
	Broken bool   `json:"broken"`
	// Records is the CRC-32 of the tables that package kernel makes of it.
	Records uint32 `json:"records"`
	Scratch int64  `json:"scratch"`
}

func mustEncode(t *testing.T, px *transcode.Pixels, o l3.Options) []byte {
	t.Helper()
	b, err := l3.Encode(px, o)
	testenv.Must(t, err)
	return b
}

func write(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
}

func writeJSON(t *testing.T, dir, name string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	testenv.Must(t, err)
	write(t, dir, name, b)
}

// noise is a picture of soft noise with some dots, which dense mode needs escapes for.
func noise(rng *rand.Rand, mode transcode.Mode, width, height int) *transcode.Pixels {
	px := &transcode.Pixels{Width: width, Height: height, Mode: mode}
	wide := mode.Depth() == 16
	if wide {
		px.Type = transcode.Uint16
	}
	for i := range width * height * mode.Channels() {
		v := 0x3000 + 60*(i/mode.Channels()%width) + rng.IntN(0x900)
		if rng.IntN(40) == 0 {
			v = rng.IntN(1 << 16)
		}
		if wide {
			px.Pix = binary.LittleEndian.AppendUint16(px.Pix, uint16(v))
		} else {
			px.Pix = append(px.Pix, byte(v>>8))
		}
	}
	return px
}

// writePictures makes pictures of every mode in every way.
func writePictures(t *testing.T, dir string) {
	rng := rand.New(rand.NewPCG(1, 1))
	var cases []pictureCase
	add := func(mode transcode.Mode, width, height int, o l3.Options) {
		if !l3.Holds(mode, o.Version()) {
			return
		}
		b := mustEncode(t, noise(rng, mode, width, height), o)
		px, err := l3.Decoder{}.Decode(t.Context(), b, transcode.Limits{})
		testenv.Must(t, err)
		c := pictureCase{fmt.Sprintf("%03d-%v-%v", len(cases), mode, o.Mode), o.Version(), o.Mode.String(), width, height, mode.Channels(), mode.Depth()}
		write(t, dir, c.Name+".l3", b)
		write(t, dir, c.Name+".pix", px.Pix)
		cases = append(cases, c)
	}
	for i, mode := range pictures.L3Modes {
		for j, way := range []l3.Mode{l3.Dense, l3.Fast, l3.V1} {
			size := [][2]int{{1, 1}, {65, 40}, {33, 70}, {50, 31}, {64, 64}}[(i+2*j)%5]
			add(mode, size[0], size[1], l3.Options{Mode: way})
			add(mode, 21, 17, l3.Options{Mode: way, Patch: 16})
		}
	}
	// Wide patches need scratch rows; many patches make long tables.
	add(transcode.ModeRGB, 300, 40, l3.Options{Patch: 4096})
	add(transcode.ModeL, 600, 35, l3.Options{Mode: l3.Fast, Patch: 290})
	add(transcode.ModeRGB, 70, 70, l3.Options{Mode: l3.Fast, Patch: 8})
	add(transcode.ModeRGB, 70, 70, l3.Options{Mode: l3.V1, Patch: 8})
	add(transcode.ModeRGB, 48, 32, l3.Options{Mode: l3.V1, Patch: 16})
	writeJSON(t, dir, "pictures.json", cases)
}

// damaged changes some bits, bytes or the length of b, rather where fields begin.
func damaged(rng *rand.Rand, b []byte) []byte {
	for range rng.IntN(4) {
		if len(b) == 0 {
			return b
		}
		at := rng.IntN(len(b))
		if rng.IntN(4) != 0 {
			at = rng.IntN(min(len(b), 60))
		}
		switch rng.IntN(8) {
		case 0:
			b[at] = byte(rng.Uint32())
		case 1:
			b[at]++
		case 2:
			b = b[:at]
		case 3:
			b = append(b, make([]byte, 1+rng.IntN(20))...)
		case 4:
			b = append(b[:at:at], append([]byte{byte(rng.Uint32())}, b[at:]...)...)
		default:
			b[at] ^= 1 << rng.IntN(8)
		}
	}
	return b
}

// resum makes the checksum of a header right, where there may be one.
func resum(b []byte) {
	if len(b) < 32 || string(b[:4]) != "LLL2" {
		return
	}
	n := func(at int) int64 { return int64(binary.LittleEndian.Uint32(b[at:])) }
	if n(16) == 0 || n(20) == 0 {
		return
	}
	end := 32 + n(24)
	if columns, rows := (n(8)+n(16)-1)/n(16), (n(12)+n(20)-1)/n(20); columns < 1e6 && rows < 1e6 {
		end += 8 * columns * rows
	}
	if end > int64(len(b)) {
		return
	}
	clear(b[28:32])
	binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:end], crc32.MakeTable(crc32.Castagnoli)))
}

// The numbers of check_gpu.py.
var (
	means = [4]float64{.485, .456, .406, .5}
	stds  = [4]float64{.229, .224, .225, .25}
)

const (
	sourceAt  = 0x20_0000_0000
	targetAt  = 0x40_0000_0000
	scratchAt = 0x31_0000_0010
)

// judge says what package kernel makes of a file: the tables for float32 as CHW.
func judge(b []byte) headerCase {
	c := headerCase{Len: len(b)}
	fail := func(err error) headerCase {
		c.Error, c.Broken = err.Error(), true
		return c
	}
	s, err := l3.Open(b, transcode.Limits{})
	if err != nil {
		return fail(err)
	}
	target := kernel.Target{High: 1 << 62, Base: targetAt, Row: int64(4 * s.Width), Pixel: 4, Channel: int64(4 * s.Width * s.Height), Output: kernel.Float32}
	for i := range s.Mode.Channels() {
		target.Scale[i] = float32(1 / (float64(int(1)<<s.Mode.Depth()-1) * stds[i]))
		target.Bias[i] = float32(-means[i] / stds[i])
	}
	plan := kernel.New([]kernel.Picture{{Samples: s, Source: sourceAt, Target: target}})
	if err := plan.Errors[0]; err != nil {
		return fail(err)
	}
	records, patches := plan.Records(scratchAt)
	c.Records, c.Scratch = crc32.ChecksumIEEE(append(records, patches...)), plan.Scratch
	if s.Width*s.Height > 1<<20 {
		c.Broken = true // as large as none of ours is
		return c
	}
	pix := make([]byte, s.Width*s.Height*s.Mode.Channels()*s.Mode.Depth()/8)
	c.Broken = s.Decode(transcode.Interleaved(pix, s.Width, s.Mode.Channels(), s.Mode.Depth()/8)) != nil
	return c
}

// writeHeaders makes files with and without damage.
func writeHeaders(t *testing.T, dir string) {
	rng := rand.New(rand.NewPCG(2, 1))
	var bases [][]byte
	for i, mode := range pictures.L3Modes {
		for j, way := range []l3.Mode{l3.Dense, l3.Fast, l3.V1} {
			o := l3.Options{Mode: way, Patch: []int{0, 7, 16, 300}[(i+j)%4]}
			if !l3.Holds(mode, o.Version()) {
				continue
			}
			o.Patch = min(o.Patch, 255+100*(o.Version()-1))
			px := noise(rng, mode, 1+rng.IntN(30), 1+rng.IntN(30))
			if i%3 == 1 {
				px.Meta = transcode.Metadata{EXIF: []byte("II*\x00 is how it begins"), ICC: make([]byte, 20*i), Orientation: uint8(i)}
			}
			bases = append(bases, mustEncode(t, px, o))
		}
	}
	flat := &transcode.Pixels{Width: 700, Height: 90, Mode: transcode.ModeLA, Pix: make([]byte, 700*90*2)}
	bases = append(bases, mustEncode(t, flat, l3.Options{Mode: l3.Fast, Patch: 320}))
	small := &transcode.Pixels{Width: 40, Height: 36, Mode: transcode.ModeRGB, Pix: make([]byte, 40*36*3)}
	bases = append(bases, mustEncode(t, small, l3.Options{Mode: l3.Fast, Patch: 4}), mustEncode(t, small, l3.Options{Mode: l3.V1, Patch: 4}))
	var all []byte
	var cases []headerCase
	wrong := 0
	for i := range 4000 {
		b := damaged(rng, append([]byte(nil), bases[i%len(bases)]...))
		if rng.IntN(4) != 0 {
			resum(b)
		}
		c := judge(b)
		c.Begin = len(all)
		cases, all = append(cases, c), append(all, b...)
		if c.Error != "" {
			wrong++
		}
	}
	t.Logf("%d of %d headers are wrong", wrong, len(cases))
	if wrong < 1000 || wrong > 3500 {
		t.Error("that is no good mixture")
	}
	write(t, dir, "headers.bin", all)
	writeJSON(t, dir, "headers.json", cases)
}

// modules is where those of Python are.
const modules = "../../../../python"

// python runs a program of Python, which has the modules and this directory on its path.
func python(t *testing.T, files []*os.File, environment []string, args ...string) string {
	t.Helper()
	interpreter := os.Getenv("PYTHON")
	if interpreter == "" {
		interpreter = "/usr/bin/python3"
	}
	path := []string{modules, "."}
	for i, dir := range path {
		at, err := filepath.Abs(dir)
		testenv.Must(t, err)
		path[i] = at
	}
	cmd := exec.Command(interpreter, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "PIPEFS_PTX=",
		"PYTHONPATH="+strings.Join(path, string(os.PathListSeparator)))
	cmd.Env = append(cmd.Env, environment...)
	cmd.ExtraFiles = files
	out, err := cmd.CombinedOutput()
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || bytes.Contains(out, []byte("No module named 'torch'")) {
			t.Fatalf("%s: %v (PyTorch is in python3-torchvision)\n%s", interpreter, err, out)
		}
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func cases(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writePictures(t, dir)
	writeHeaders(t, dir)
	return dir
}

// TestDecoder has the module decode on an interpreter of its kernels. The judgements are
// in testdata/check_gpu.py.
func TestDecoder(t *testing.T) {
	testenv.Slow(t)
	dir := cases(t)
	out := python(t, []*os.File{startMachine(t)}, []string{"PIPEFS_TEST_GPU=3", "PIPEFS_TEST_CASES=" + dir}, "testdata/check_gpu.py", "-v")
	t.Log(out)
}

// TestRealDevice has it decode the same on a GPU.
func TestRealDevice(t *testing.T) {
	testenv.Slow(t)
	said := python(t, nil, nil, "-c", `
import torch
print("yes" if torch.cuda.is_available() else f"PyTorch {torch.__version__} sees no GPU, CUDA {torch.version.cuda}")`)
	if said = strings.TrimSpace(said); said != "yes" {
		t.Skip("skipped: " + said)
	}
	t.Log(python(t, nil, []string{"PIPEFS_TEST_GPU=real", "PIPEFS_TEST_CASES=" + cases(t)}, "testdata/check_gpu.py", "-v"))
}

// TestBench compiles the benchmark, and runs what of it needs no GPU.
func TestBench(t *testing.T) {
	testenv.Slow(t)
	out := python(t, nil, nil, filepath.Join(modules, "bench_gpu.py"), "--pictures", "2", "--width", "64", "--height", "48", "--seconds", "0.1")
	if !strings.Contains(out, "| PNG, Pillow") {
		t.Errorf("no table:\n%s", out)
	}
}
