package codecs_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// pngOf is a PNG file of chunks behind a header of 8-bit grey.
func pngOf(width, height uint32, chunks ...[]byte) []byte {
	b := []byte("\x89PNG\r\n\x1a\n")
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("IHDR"), width), height)
	for _, c := range append([][]byte{append(header, 8, 0, 0, 0, 0)}, append(chunks, []byte("IEND"))...) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(c)-4))
		b = binary.BigEndian.AppendUint32(append(b, c...), crc32.ChecksumIEEE(c))
	}
	return b
}

// deflated is so many zeros behind the name of a chunk.
func deflated(name string, zeros int) []byte {
	b := bytes.NewBufferString(name)
	w := zlib.NewWriter(b)
	_, _ = w.Write(make([]byte, zeros))
	_ = w.Close()
	return b.Bytes()
}

// bombs promise or hold more than they may.
func bombs(t *testing.T) map[string][]byte {
	jpeg := testenv.Picture(t, filepath.Base(testenv.Pictures(t, "*.jpg")[0]))
	frame := bytes.Index(jpeg, []byte{0xff, 0xc0})
	if frame < 0 {
		frame = bytes.Index(jpeg, []byte{0xff, 0xc2})
	}
	scan := bytes.Index(jpeg, []byte{0xff, 0xda})
	wide := slices.Clone(jpeg)
	copy(wide[frame+5:], "\xff\xff\xff\xff")
	tables := slices.Clone(jpeg)
	for at := 0; ; at += 2 {
		next := bytes.Index(tables[at:], []byte{0xff, 0xc4})
		if next < 0 {
			break
		}
		at += next
		tables[at+1] = 0xe5 // tables of an application, which are none
	}
	bmp := func(width, height int32, compression uint32) []byte {
		b := append([]byte("BM"), make([]byte, 1078)...)
		for at, v := range map[int]uint32{10: 1078, 14: 40, 18: uint32(width), 22: uint32(height), 26: 1 | 8<<16, 30: compression} {
			binary.LittleEndian.PutUint32(b[at:], v)
		}
		return b
	}
	tiff := func(entries ...[4]uint32) []byte {
		b := binary.LittleEndian.AppendUint16([]byte("II*\x00\x08\x00\x00\x00"), uint16(len(entries)))
		for _, e := range entries {
			b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, uint16(e[0])), uint16(e[1]))
			b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, e[2]), e[3])
		}
		return binary.LittleEndian.AppendUint32(b, 8) // the next directory is this one
	}
	gif := "GIF89a\xff\xff\xff\xff\x80\x00\x00\x00\x00\x00\xff\xff\xff"
	image := ",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00"
	return map[string][]byte{
		"png.sides":       pngOf(65535, 65535),
		"png.longer":      pngOf(8, 8, deflated("IDAT", 100<<20)),
		"png.text":        pngOf(8, 8, deflated("zTXtx\x00\x00", 100<<20), deflated("IDAT", 72)),
		"png.profile":     pngOf(8, 8, deflated("iCCPx\x00\x00", 100<<20), deflated("IDAT", 72)),
		"png.chunks":      pngOf(8, 8, append(slices.Repeat([][]byte{[]byte("teSt")}, 200_000), deflated("IDAT", 72))...),
		"jpeg.sides":      wide,
		"jpeg.scans":      slices.Concat(jpeg[:len(jpeg)-2], bytes.Repeat(jpeg[scan:len(jpeg)-2], 2000), []byte{0xff, 0xd9}),
		"jpeg.tables":     tables,
		"jpeg.frames":     slices.Concat(jpeg[:scan], bytes.Repeat(jpeg[frame:scan], 5000), jpeg[scan:]),
		"jpeg.cut":        jpeg[:len(jpeg)/2],
		"jpeg.usual":      pictures.Costly(100_000),
		"bmp.negative":    bmp(-2147483648, -2147483648, 0),
		"bmp.sides":       bmp(2147483647, 2147483647, 0),
		"bmp.runs":        bmp(1000, 1000, 1),
		"gif.sides":       []byte(gif + image + ";"),
		"gif.frames":      []byte(gif[:6] + "\x01\x00\x01\x00" + gif[10:] + strings.Repeat(image, 100_000) + ";"),
		"tiff.sides":      tiff([4]uint32{256, 4, 1, 1 << 31}, [4]uint32{257, 4, 1, 1 << 31}),
		"tiff.strips":     tiff([4]uint32{256, 4, 1, 8}, [4]uint32{257, 4, 1, 8}, [4]uint32{273, 4, 1 << 30, 8}, [4]uint32{279, 4, 1 << 30, 8}),
		"webp.sides":      []byte("RIFF\x1c\x00\x00\x00WEBPVP8L\x10\x00\x00\x00\x2f\xff\xff\xff\x0f" + strings.Repeat("\x00", 11)),
		"pnm.sides":       []byte("P6 2147483647 2147483647 255\n"),
		"pnm.digits":      []byte("P5 " + strings.Repeat("9", 1_000_000)),
		"l3.sides":        []byte("L3\x02\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		"unknown.nothing": nil,
	}
}

// TestBombs has views made of files that promise more than they hold, hold more than they promise, or are damaged in their
// headers. With a limit of a million pixels, none takes more memory than a picture of the limit may.
func TestBombs(t *testing.T) {
	const most = 1 << 20
	r := codecs.Default(transcode.Limits{MaxPixels: most})
	all := bombs(t)
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	damaged := 2
	if testenv.Soak() {
		damaged = 40
	}
	for _, path := range testenv.Pictures(t, "*") {
		for range damaged {
			name := filepath.Base(path)
			b := slices.Clone(testenv.Picture(t, name))
			for range 1 + rnd.IntN(4) {
				b[rnd.IntN(min(len(b), 200))] = []byte{0, 1, 0x7f, 0xff, byte(rnd.IntN(256))}[rnd.IntN(5)]
			}
			all[name] = b
			if testenv.Soak() {
				all[name+" "+time.Now().String()] = b
			}
		}
	}
	if dir := os.Getenv("PIPEFS_PICTURES"); dir != "" { // somebody else's, such as those of Pillow's tests
		paths, err := filepath.Glob(filepath.Join(dir, "*.*"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s holds no pictures: %v", dir, err)
		}
		for _, path := range paths {
			if all[path], err = os.ReadFile(path); err != nil {
				t.Error(err)
			}
		}
	}
	var slowest time.Duration
	slow := ""
	for name, src := range all {
		for _, spec := range []string{"bmp", "scan5-bmp", "resize16-npy", "l3"} {
			v, err := r.Parse(spec)
			testenv.Must(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			info, err := r.ProbeBytes(src)
			if err == nil {
				if plan := r.Plan(v, info, transcode.Auto); !plan.Unchanged() {
					_, err = plan.Run(t.Context(), src)
				}
			}
			if took := time.Since(began); took > slowest {
				slowest, slow = took, name+" "+spec
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 64*most+16*uint64(len(src)) {
				t.Errorf("%s of %s took %d bytes: %v", spec, name, n, err)
			}
			if strings.Contains(name, ".sides") && err == nil {
				t.Errorf("%s of %s is no error", spec, name)
			}
		}
	}
	t.Logf("%d files; %s took %v", len(all), slow, slowest)
	testenv.Proved(t, "pictures", len(all), slowest.Seconds())
}
