package blockcache

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// BenchmarkHit is a read of what is kept, beside a plain read of a file that is open. "whole"
// reads blocks as a mount does, 128 KiB at a time; "piece" reads 10 KB from anywhere.
func BenchmarkHit(b *testing.B) {
	const size = 64 << 20
	p := &place{name: "memory:"}
	c := opened(b, b.TempDir(), Options{})
	o := object(c, p, "a", size)
	testenv.Must(b, check(o, 0, size))
	c.waitWritten(b)
	path := filepath.Join(b.TempDir(), "a")
	data := make([]byte, size)
	content("a1", data, 0)
	testenv.Must(b, os.WriteFile(path, data, 0o600))
	f, err := os.Open(path)
	testenv.Must(b, err)
	defer f.Close()
	for _, how := range []struct {
		name        string
		bytes, step int
	}{{"whole", 128 << 10, 128 << 10}, {"piece", 10_000, 777}} {
		buffer := make([]byte, how.bytes)
		read := func(b *testing.B, at func([]byte, int64) (int, error)) {
			r := rand.New(rand.NewPCG(1, 2))
			b.SetBytes(int64(how.bytes))
			b.ReportAllocs()
			for b.Loop() {
				off := r.Int64N(int64(size-how.bytes)) / int64(how.step) * int64(how.step)
				if n, err := at(buffer, off); n < how.bytes {
					b.Fatal(n, err)
				}
			}
		}
		b.Run(how.name+"/cache", func(b *testing.B) { read(b, o.ReadAt) })
		b.Run(how.name+"/file", func(b *testing.B) { read(b, f.ReadAt) })
	}
	if c.Stats().Fetched != size {
		b.Errorf("%+v", c.Stats())
	}
}

// BenchmarkOpen is to open a cache that holds many blocks: what a mount waits for.
func BenchmarkOpen(b *testing.B) {
	for _, objects := range []int{10_000, 300_000} {
		b.Run(fmt.Sprint(objects), func(b *testing.B) {
			dir := b.TempDir()
			p := &place{name: "memory:"}
			c, err := Open(dir, Options{MaxBytes: 1 << 40})
			testenv.Must(b, err)
			s := c.shelf(p.name)
			block := make([]byte, 100)
			s.write.Lock()
			for n := range objects {
				s.append([]load{{key: object(c, p, fmt.Sprint(n), 100).key(0), piece: piece{0, 1}, bytes: 100}}, block)
			}
			s.write.Unlock()
			testenv.Must(b, c.Close())
			for b.Loop() {
				c, err := Open(dir, Options{MaxBytes: 1 << 40})
				testenv.Must(b, err)
				if got := c.shelf(p.name).index.pieces; got != objects {
					b.Fatal(got)
				}
				testenv.Must(b, c.Close())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(objects), "ns/block")
		})
	}
}
