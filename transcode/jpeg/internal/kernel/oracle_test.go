package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// needSIMD skips where libjpeg-turbo has other SIMD code than the one whose
// overflows this package has.
func needSIMD(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("libjpeg-turbo saturates differently on " + runtime.GOARCH)
	}
}

// fillings are ways to choose quantisation tables and coefficients.
var fillings = []struct {
	name   string
	exotic bool // some values are beyond what an encoder makes of 8-bit samples
	fill   func(rng *rand.Rand, c *part)
}{
	{"photograph", false, func(rng *rand.Rand, c *part) {
		for k := range c.quant {
			c.quant[k] = uint16(2 + k/2 + rng.IntN(4))
		}
		each(c, func(b *[64]int16) {
			b[0] = int16(rng.IntN(400) - 200)
			for k := 1; k < 64 && rng.IntN(8) > 0; k++ {
				b[k] = int16(rng.NormFloat64() * 60 / float64(k) / float64(k))
			}
		})
	}},
	{"dense", false, func(rng *rand.Rand, c *part) {
		for k := range c.quant {
			c.quant[k] = uint16(1 + rng.IntN(3))
		}
		each(c, func(b *[64]int16) {
			for k := range b {
				b[k] = int16(rng.IntN(101) - 50)
			}
		})
	}},
	{"grey", false, func(rng *rand.Rand, c *part) {
		fill(c, 8)
		each(c, func(b *[64]int16) { b[0] = int16(rng.IntN(256) - 128) })
	}},
	{"clipped", false, func(rng *rand.Rand, c *part) {
		fill(c, 16)
		each(c, func(b *[64]int16) {
			for range 1 + rng.IntN(6) {
				b[rng.IntN(64)] = int16(rng.IntN(129) - 64)
			}
		})
	}},
	{"largest", true, func(rng *rand.Rand, c *part) {
		fill(c, 255)
		each(c, func(b *[64]int16) {
			for k := range b {
				if rng.IntN(3) == 0 {
					b[k] = int16(1023 - 2046*rng.IntN(2))
				}
			}
			b[0] = int16(2047 - 4094*rng.IntN(2))
		})
	}},
	{"one", true, func(rng *rand.Rand, c *part) {
		fill(c, 1)
		each(c, func(b *[64]int16) {
			k := rng.IntN(64)
			b[k] = int16(rng.IntN(65535) - 32767)
			if k == 0 {
				b[k] >>= 1
			}
		})
	}},
	{"row 0", true, func(rng *rand.Rand, c *part) {
		for k := range c.quant {
			c.quant[k] = uint16(1 + rng.IntN(40))
		}
		each(c, func(b *[64]int16) {
			for k := range b {
				if row0>>k&1 != 0 && rng.IntN(3) == 0 {
					b[k] = int16(rng.IntN(1<<15) - 1<<14)
				}
			}
		})
	}},
	{"rows 0 and 4", true, func(rng *rand.Rand, c *part) {
		for k := range c.quant {
			c.quant[k] = uint16(1 + rng.IntN(40))
		}
		each(c, func(b *[64]int16) {
			for k := range b {
				if (row0|row4)>>k&1 != 0 && rng.IntN(3) == 0 {
					b[k] = int16(rng.IntN(1<<15) - 1<<14)
				}
			}
		})
	}},
	{"random", true, func(rng *rand.Rand, c *part) {
		for k := range c.quant {
			c.quant[k] = uint16(rng.Uint32())
		}
		each(c, func(b *[64]int16) {
			density := 1 + rng.IntN(64)
			for k := range b {
				if rng.IntN(64) < density {
					b[k] = int16(rng.IntN(65535) - 32767)
				}
			}
			b[0] >>= 1
		})
	}},
	// Coefficients that are not zero, and products that are.
	{"vanishing", true, func(rng *rand.Rand, c *part) {
		for k := range c.quant {
			c.quant[k] = [...]uint16{0, 0, 1 << 15, 1 << 12, 3}[rng.IntN(5)]
			if row0>>k&1 != 0 {
				c.quant[k] = 3
			}
		}
		each(c, func(b *[64]int16) {
			for k := range b {
				if rng.IntN(8) == 0 {
					b[k] = int16(rng.IntN(1<<15)-1<<14) &^ 1
				}
			}
		})
	}},
}

func each(c *part, f func(b *[64]int16)) {
	for i := range c.blocks {
		f(&c.blocks[i])
	}
}

func fill(c *part, q uint16) {
	for k := range c.quant {
		c.quant[k] = q
	}
}

// TestTransforms compares the samples of grey pictures of all scales with
// libjpeg-turbo's.
func TestTransforms(t *testing.T) {
	forms.Each(t, func(t *testing.T) {
		for i, f := range fillings {
			for _, size := range []int{8, 4, 2, 1} {
				t.Run(fmt.Sprintf("%s/%d", f.name, size), func(t *testing.T) {
					if f.exotic {
						needSIMD(t)
					}
					rng := rand.New(rand.NewPCG(uint64(i), 1))
					for range 20 {
						p := newPicture(1+rng.IntN(200), 1+rng.IntN(200), -1, "11")
						f.fill(rng, &p.parts[0])
						d := p.decode(size)[0]
						compare(t, p, &d, oracle(t, p.encode(), d.width, d.height, 1, pixelGrey))
					}
				})
			}
		}
	})
}

func compare(t *testing.T, p *picture, d *plane, want []byte) {
	t.Helper()
	for y := range d.height {
		for x, got := range d.row(y) {
			if want := want[y*d.width+x]; got != want {
				b := y*8/(d.stride/p.parts[0].wide*8)*p.parts[0].wide + x/(d.stride/p.parts[0].wide)
				t.Fatalf("sample %d, %d: %d, libjpeg-turbo has %d; block %v, table %v", x, y, got, want,
					p.parts[0].blocks[b], p.parts[0].quant)
			}
		}
	}
}

// TestPixels compares whole pictures with libjpeg-turbo's: upsampling and colours.
func TestPixels(t *testing.T) {
	forms.Each(t, func(t *testing.T) {
		for _, c := range []struct {
			name    string
			adobe   int
			factors []string
			format  int32
		}{
			{"YCbCr 1x1", -1, []string{"11", "11", "11"}, pixelRGB},
			{"YCbCr 2x1", -1, []string{"21", "11", "11"}, pixelRGB},
			{"YCbCr 1x2", -1, []string{"12", "11", "11"}, pixelRGB},
			{"YCbCr 2x2", -1, []string{"22", "11", "11"}, pixelRGB},
			{"YCbCr mixed", -1, []string{"22", "21", "12"}, pixelRGB},
			{"RGB", 0, []string{"11", "11", "11"}, pixelRGB},
			{"RGB 2x2", 0, []string{"22", "11", "11"}, pixelRGB},
			{"grey", -1, []string{"11"}, pixelRGB},
			{"CMYK", 0, []string{"11", "11", "11", "11"}, pixelCMYK},
			{"CMYK 2x2", 0, []string{"22", "11", "11", "22"}, pixelCMYK},
			{"YCCK", 2, []string{"11", "11", "11", "11"}, pixelCMYK},
			{"YCCK 2x1", 2, []string{"21", "11", "11", "21"}, pixelCMYK},
		} {
			t.Run(c.name, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(3, 4))
				for _, f := range fillings {
					if f.exotic {
						continue
					}
					for width := 1; width < 150; width += 1 + width/40*rng.IntN(8) {
						p := newPicture(width, 1+rng.IntN(40), c.adobe, c.factors...)
						for i := range p.parts {
							f.fill(rng, &p.parts[i])
						}
						checkPixels(t, p, c.format)
					}
				}
			})
		}
	})
}

func checkPixels(t *testing.T, p *picture, format int32) {
	t.Helper()
	channels := 3
	if format == pixelCMYK {
		channels = 4
	}
	want := oracle(t, p.encode(), p.width, p.height, channels, format)
	planes := p.decode(8)
	buf := make([][]byte, len(planes))
	for i := range buf {
		buf[i] = make([]byte, p.width+8)
	}
	got := make([]byte, p.width*channels)
	rows := make([][]byte, len(planes))
	for y := range p.height {
		for i := range planes {
			rows[i] = p.upsampled(buf[i], i, &planes[i], y)[:p.width]
		}
		switch {
		case len(rows) == 1:
			GreyToRGB(got, rows[0])
		case len(rows) == 3 && p.adobe == 0:
			Interleave3(got, rows[0], rows[1], rows[2])
		case len(rows) == 3:
			YCCToRGB(got, rows[0], rows[1], rows[2])
		case p.adobe == 0:
			Interleave4(got, rows[0], rows[1], rows[2], rows[3])
		default:
			YCCKToCMYK(got, rows[0], rows[1], rows[2], rows[3])
		}
		for x, v := range got {
			if w := want[y*p.width*channels+x]; v != w {
				t.Fatalf("%d×%d: row %d, byte %d: %d, libjpeg-turbo has %d", p.width, p.height, y, x, v, w)
			}
		}
	}
}

// The oracle is libjpeg-turbo itself, through its tj functions.
const (
	pixelRGB  = 0
	pixelGrey = 6
	pixelCMYK = 11

	flagAccurateDCT = 4096
)

var library struct {
	once       sync.Once
	err        error
	init       func() uintptr
	decompress func(handle uintptr, src *byte, size uintptr, dst *byte, width, pitch, height, format, flags int32) int32
	text       func(handle uintptr) string
	destroy    func(handle uintptr) int32
}

// oracle decodes a file to width by height pixels of a format, which is smaller
// than the picture where the library scales.
func oracle(t testing.TB, file []byte, width, height, channels int, format int32) []byte {
	t.Helper()
	l := &library
	l.once.Do(func() {
		lib, err := purego.Dlopen("libturbojpeg.so.0", purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			l.err = err
			return
		}
		purego.RegisterLibFunc(&l.init, lib, "tjInitDecompress")
		purego.RegisterLibFunc(&l.decompress, lib, "tjDecompress2")
		purego.RegisterLibFunc(&l.text, lib, "tjGetErrorStr2")
		purego.RegisterLibFunc(&l.destroy, lib, "tjDestroy")
	})
	if l.err != nil {
		t.Fatalf("libturbojpeg.so.0 is missing (Debian: apt install libturbojpeg0): %v", l.err)
	}
	h := l.init()
	defer l.destroy(h)
	out := make([]byte, width*height*channels)
	if l.decompress(h, unsafe.SliceData(file), uintptr(len(file)), unsafe.SliceData(out),
		int32(width), int32(width*channels), int32(height), format, flagAccurateDCT) != 0 {
		t.Fatalf("libjpeg-turbo: %s", l.text(h))
	}
	return out
}
