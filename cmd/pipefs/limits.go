package main

import (
	"fmt"
	"math"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

// limitOptions are the options of every command that opens samples: what a
// hostile file may cost. Error messages name them.
func limitOptions(l *transcode.Limits) []*option {
	return []*option{
		{name: "max-file", arg: "SIZE", def: "1GiB", set: intoFileSize(&l.MaxFile),
			help: "show longer files unchanged: a sample is read into memory as a whole"},
		{name: "max-pixels", arg: "N", def: fmt.Sprint(transcode.DefaultMaxPixels), set: intoInt(&l.MaxPixels, 1, math.MaxInt64),
			help: "show larger pictures unchanged: decoding one takes about six bytes of memory a pixel"},
		{name: "max-scans", arg: "N", def: fmt.Sprint(jpeg.DefaultMaxScans), set: intoInt(&l.MaxScans, 1, math.MaxInt32),
			help: "refuse a JPEG of more scans, each of which takes as long as a whole picture"},
		{name: "max-segments", arg: "N", def: fmt.Sprint(jpeg.DefaultMaxSegments), set: intoInt(&l.MaxSegments, 1, math.MaxInt32),
			help: "refuse a JPEG of more marker segments that are no scans"},
	}
}

// intoFileSize takes a size of at least one byte: 0 would mean the default.
func intoFileSize(p *int64) func(string) error {
	return func(s string) error {
		n, err := parseSize(s)
		if err == nil && n < 1 {
			err = fmt.Errorf("%q leaves no file to be read", s)
		}
		*p = n
		return err
	}
}
