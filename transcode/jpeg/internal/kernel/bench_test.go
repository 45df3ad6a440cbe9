package kernel

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkRows measures kernels on rows of 1024 samples. Bytes are those written.
func BenchmarkRows(b *testing.B) {
	const n = 1024
	rng := rand.New(rand.NewPCG(1, 2))
	in := [][]byte{make([]byte, n), make([]byte, n), make([]byte, n), make([]byte, n)}
	for _, row := range in {
		for i := range row {
			row[i] = byte(max(0, min(255, 128+30*rng.NormFloat64())))
		}
	}
	dst := make([]byte, 4*n)
	for _, k := range rowKernels {
		for _, form := range forms {
			b.Run(k.name+"/"+form.Name, func(b *testing.B) {
				form.Use()
				b.SetBytes(int64(k.size * n))
				b.ReportAllocs()
				for b.Loop() {
					k.run(dst, in)
				}
			})
		}
	}
}

// BenchmarkBlocks measures kernels on blocks like those of a photograph. Bytes are
// the samples written.
func BenchmarkBlocks(b *testing.B) {
	const n = 256
	p := newPicture(8*n, 8, -1, "11")
	c := &p.parts[0]
	fillings[0].fill(rand.New(rand.NewPCG(3, 4)), c)
	bitmaps := make([]uint64, n)
	for i := range bitmaps {
		bitmaps[i] = nonzero(&c.blocks[i])
	}
	const stride = 8*n + 64 // rows in different sets of the cache
	dst := make([]byte, 8*stride)
	for _, k := range []struct {
		name string
		size int
		run  func(i int)
	}{
		{"Block8", 64, func(i int) { Block8(dst[8*i:], stride, &c.blocks[i], bitmaps[i], &c.quant) }},
		{"Block4", 16, func(i int) { Block4(dst[8*i:], stride, &c.blocks[i], bitmaps[i], &c.quant) }},
		{"Block2", 4, func(i int) { Block2(dst[8*i:], stride, &c.blocks[i], bitmaps[i], &c.quant) }},
	} {
		for _, form := range forms {
			b.Run(k.name+"/"+form.Name, func(b *testing.B) {
				form.Use()
				b.SetBytes(int64(k.size))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					k.run(i % n)
				}
			})
		}
	}
}
