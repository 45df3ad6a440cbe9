package l3gpu_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// A batch is decoded on the GPU where there is one, and on the processor where there
// is none.
func Example() {
	px := &transcode.Pixels{Width: 2, Height: 1, Mode: transcode.ModeRGB, Pix: []byte{1, 2, 3, 4, 5, 6}}
	file, err := l3.Encode(px, l3.Options{})
	if err != nil {
		panic(err)
	}
	samples, err := l3.Open(file, transcode.Limits{})
	if err != nil {
		panic(err)
	}

	var backend l3.Backend = l3.CPU{Workers: 4}
	if gpu, err := l3gpu.Open(l3gpu.Options{Log: slog.Default()}); err == nil {
		backend = gpu
	}
	defer backend.Close()
	jobs := []l3.Job{{Samples: samples, Dst: transcode.Target{Pix: make([]byte, 6), Layout: transcode.Layout{Row: 2, Pixel: 1, Channel: 2}}}}
	if err := backend.Decode(context.Background(), jobs); err != nil {
		panic(err)
	}
	fmt.Println(jobs[0].Dst.Pix, jobs[0].Err)
	// Output: [1 4 2 5 3 6] <nil>
}

// Start decides by itself, and gathers what several goroutines want at once.
func ExampleStart() {
	backend, err := l3gpu.Start(l3gpu.StartOptions{Options: l3gpu.Options{Memory: 64 << 20}})
	if err != nil {
		panic(err)
	}
	defer backend.Close()
	px := &transcode.Pixels{Width: 2, Height: 1, Mode: transcode.ModeL, Pix: []byte{7, 9}}
	file, err := l3.Encode(px, l3.Options{})
	if err != nil {
		panic(err)
	}
	samples, err := l3.Open(file, transcode.Limits{})
	if err != nil {
		panic(err)
	}
	pix := make([]byte, 2)
	if err := backend.DecodeOne(context.Background(), samples, transcode.Interleaved(pix, 2, 1, 1)); err != nil {
		panic(err)
	}
	fmt.Println(pix)
	// Output: [7 9]
}
