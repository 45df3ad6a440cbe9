package jpeg_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

// Cutting a picture down to fidelity 5.
func ExampleTranscode() {
	src, err := os.ReadFile("../../testdata/pictures/ycc420.jpg")
	if err != nil {
		log.Fatal(err)
	}
	s, err := jpeg.Transcode(src, jpeg.Options{})
	if err != nil {
		log.Fatal(err)
	}
	const level = 5
	scans := s.Levels[level-1]
	cut := append(s.Data[:s.Ends[scans-1]:s.Ends[scans-1]], jpeg.EOI[:]...)
	fmt.Printf("%d bytes, as progressive %d, of which %d scans are %d bytes\n", len(src), len(s.Data), scans, len(cut))
	// Output: 1291 bytes, as progressive 1203, of which 5 scans are 629 bytes
}

// Reading a header with as few bytes of the file as possible.
func ExampleParseHeader() {
	src, err := os.ReadFile("../../testdata/pictures/exif.jpg")
	if err != nil {
		log.Fatal(err)
	}
	n := 64
	for {
		h, err := jpeg.ParseHeader(src[:n], jpeg.Limits{})
		var e *jpeg.Error
		if errors.As(err, &e) && e.Need > 0 && e.Need <= len(src) {
			n = max(e.Need, min(2*n, len(src)))
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%dx%d, %v, %v, orientation %d\n", h.Width, h.Height, h.Model, h.Coding, h.Orientation)
		return
	}
	// Output: 67x45, YCbCr, baseline, orientation 6
}

// A file that is cut off is never mistaken for a whole one.
func ExampleError() {
	src, err := os.ReadFile("../../testdata/pictures/grey.jpg")
	if err != nil {
		log.Fatal(err)
	}
	_, err = jpeg.Transcode(src[:len(src)-100], jpeg.Options{})
	fmt.Println(errors.Is(err, transcode.ErrTruncated))
	// Output: true
}
