package raster

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// TestNumPyLoads wants np.load to map every mode, type and layout with the
// right npyShape, dtype and values.
func TestNumPyLoads(t *testing.T) {
	var pictures []*transcode.Pixels
	var files [][]byte
	for m := transcode.ModeBit; m <= transcode.ModeRGBA16; m++ {
		for _, size := range pillow.Sizes {
			px := pillow.Sample(m, size[0], size[1])
			planes, tensor := *px, *px
			planes.Planar = true
			tensor.Type = transcode.Float32
			tensor.Pix = make([]byte, 0, tensor.Len())
			for i := range tensor.Len() / 4 {
				tensor.Pix = binary.LittleEndian.AppendUint32(tensor.Pix, math.Float32bits(float32(i)-.5))
			}
			pictures = append(pictures, px, &planes, &tensor)
		}
	}
	for _, px := range pictures {
		b, err := EncodeNPY(px)
		testenv.Must(t, err)
		files = append(files, b)
		s := transcode.Shape{Info: transcode.Info{Mode: px.Mode, Width: px.Width, Height: px.Height}, Type: px.Type}
		if want := npySize(s); want != int64(len(b)) {
			t.Errorf("%v %dx%d: %d bytes, promised %d", px.Mode, px.Width, px.Height, len(b), want)
		}
	}
	for i, a := range pillow.Open(t, pillow.Write(t, "npy", files)...) {
		px := pictures[i]
		name := fmt.Sprintf("%v %dx%d %v", px.Mode, px.Width, px.Height, px.Type)
		shape, dtype := []int{px.Height, px.Width, px.Mode.Channels()}, [...]string{"|u1", "<u2", "<f4"}[px.Type]
		switch {
		case px.Planar:
			shape = []int{px.Mode.Channels(), px.Height, px.Width}
		case px.Mode.Channels() == 1:
			shape = shape[:2]
		}
		if px.Mode == transcode.ModeBit && px.Type == transcode.Uint8 {
			dtype = "|b1"
		}
		if a.Error != "" || !slices.Equal(a.Shape, shape) || a.DType != dtype || string(a.Data) != string(px.Pix) {
			t.Errorf("%s: %v %s %s, want %v %s", name, a.Shape, a.DType, a.Error, shape, dtype)
		}
	}
}

// TestNPYHeader wants a header that can hold the largest numbers there can be.
func TestNPYHeader(t *testing.T) {
	px := &transcode.Pixels{Width: math.MaxInt64, Height: math.MaxInt64, Mode: transcode.ModeRGBA, Planar: true}
	if n := len(appendNPYHeader(nil, px)); n != transcode.ArrayHeaderSize {
		t.Errorf("%d bytes", n)
	}
	got := appendNPYHeader([]byte("x"), &transcode.Pixels{Width: 500, Height: 375, Mode: transcode.ModeRGB})
	want := "x\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (375, 500, 3), }"
	if len(got) != 1+transcode.ArrayHeaderSize || string(got[:len(want)]) != want || got[len(got)-1] != '\n' {
		t.Errorf("%q", got)
	}
}
