package codecs_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// What a view makes of one file: its header decides on the steps, and on the
// size of the result, before anything is decoded.
func ExampleDefault() {
	r := codecs.Default(transcode.Limits{})
	view, err := r.Parse("grey-npy")
	if err != nil {
		log.Fatal(err)
	}
	src := []byte("P6 2 1 255\nabcdef") // two pixels
	info, err := r.ProbeBytes(src)
	if err != nil {
		log.Fatal(err)
	}
	plan := r.Plan(view, info, transcode.Auto)
	fmt.Println(plan.Key())
	fmt.Println(plan.Size())
	out, err := plan.Run(context.Background(), src)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.6q… %d bytes\n", out, len(out))
	// Output:
	// decode-grey-npy@pnm1,grey1,npy1
	// 130 true
	// "\x93NUMPY"… 130 bytes
}

// An error in a spec points at the word at fault.
func ExampleDefault_error() {
	_, err := codecs.Default(transcode.Limits{}).Parse("resize256-bmq")
	var e *transcode.SpecError
	if errors.As(err, &e) {
		fmt.Println(e)
		fmt.Println(e.Pointer())
	}
	// Output:
	// view "resize256-bmq": unknown step "bmq" (did you mean bmp?)
	// resize256-bmq
	//           ^^^
}
