package kernel

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sync"
)

//go:embed l3.75.ptx.gz
var packed75 []byte

//go:embed l3.90.ptx.gz
var packed90 []byte

// Portable and Hopper are the program: l3.cu in the form that NVIDIA's drivers compile
// when it is loaded. Portable is for compute capability 7.5 and later, Hopper for 9.0 and
// later, where it takes fewer instructions. scripts/ptx makes both.
var (
	Portable = sync.OnceValues(func() ([]byte, error) { return unpack(packed75) })
	Hopper   = sync.OnceValues(func() ([]byte, error) { return unpack(packed90) })
)

// PTX returns the program for GPUs of compute capability major.x.
func PTX(major int) ([]byte, error) {
	if major >= 9 {
		return Hopper()
	}
	return Portable()
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
