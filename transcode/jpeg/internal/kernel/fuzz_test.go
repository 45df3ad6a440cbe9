package kernel

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzKernels compares all forms of all kernels with each other.
func FuzzKernels(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte("\x00\x01\x00\x02\xff\xff"), uint8(8))
	long := make([]byte, 700)
	for i := range long {
		long[i] = byte(i * i)
	}
	f.Add(long, uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, stride uint8) {
		var b [64]int16
		var q [64]uint16
		word := func(i int) uint16 {
			if 2*i+2 > len(data) {
				return uint16(i & 7)
			}
			return binary.LittleEndian.Uint16(data[2*i:])
		}
		for k := range b {
			b[k], q[k] = int16(word(k)), word(64+k)
		}
		for _, k := range blockKernels {
			compareBlock(t, k.size, k.run, &b, &q, k.size+int(stride))
		}
		for _, k := range rowKernels {
			n := len(data) / k.rows
			if n == 0 {
				continue
			}
			in := make([][]byte, k.rows)
			for i := range in {
				in[i] = data[i*n : (i+1)*n : (i+1)*n]
			}
			var want []byte
			for i, form := range forms {
				form.Use()
				dst := make([]byte, n*k.size)
				k.run(dst, in)
				if i == 0 {
					want = dst
				} else if !bytes.Equal(dst, want) {
					t.Fatalf("%s: %s differs for %d samples", k.name, form.Name, n)
				}
			}
		}
	})
}
