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
		{name: "max-pixels", arg: "N", def: fmt.Sprint(transcode.DefaultMaxPixels), set: intoInt(&l.MaxPixels, 1, math.MaxInt64),
			help: "show larger pictures unchanged: decoding one takes about six bytes of memory a pixel"},
		{name: "max-scans", arg: "N", def: fmt.Sprint(jpeg.DefaultMaxScans), set: intoInt(&l.MaxScans, 1, math.MaxInt32),
			help: "refuse a JPEG of more scans, each of which takes as long as a whole picture"},
		{name: "max-segments", arg: "N", def: fmt.Sprint(jpeg.DefaultMaxSegments), set: intoInt(&l.MaxSegments, 1, math.MaxInt32),
			help: "refuse a JPEG of more marker segments that are no scans"},
	}
}
