package codecs

import (
	"context"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

// scan is the step `scan`. It is here and not in package jpeg, which knows
// nothing of steps.
func scan() *transcode.Kind {
	return &transcode.Kind{
		Name: "scan", Min: 1, Max: len(jpeg.Scans{}.Levels),
		Brief: "the JPEG up to this fidelity, 1 to 10, without decoding it; 10 is all of it",
		From:  transcode.Source, To: transcode.Source, ID: "jpeg1",
		Shape: func(in transcode.Shape, level int) (transcode.Shape, bool) {
			// Fewer scans are another picture. Who calls a JPEG a mask gets all.
			whole := level == len(jpeg.Scans{}.Levels)
			return in, in.Format == transcode.JPEG && in.Scannable && (whole || !in.Mask)
		},
		Apply: func(ctx context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			s, err := split(ctx, in.Bytes, c.Limits, false)
			if err != nil {
				return transcode.Payload{}, err
			}
			return transcode.Payload{Bytes: append(s.Data[:s.Ends[s.Levels[c.Arg-1]-1]], s.Tail...)}, nil
		},
		Split: split,
	}
}

// split transcodes a file to a progressive one. What all levels share, the end
// of the file, is not part of the data.
func split(_ context.Context, src []byte, lim transcode.Limits, _ bool) (transcode.Split, error) {
	scans, err := jpeg.Progressive(src, jpeg.Limits{MaxPixels: lim.MaxPixels})
	if err != nil {
		return transcode.Split{}, err
	}
	s := transcode.Split{Ends: scans.Ends, Tail: jpeg.EOI[:]}
	s.Data = scans.Data[:scans.Ends[len(scans.Ends)-1]]
	for _, n := range scans.Levels {
		s.Levels = append(s.Levels, int(n))
	}
	return s, nil
}
