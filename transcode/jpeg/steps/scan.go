package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

// maxLevel is the level at which nothing is missing.
const maxLevel = len(jpeg.Scans{}.Levels)

// Scan is the step `scan`, with the levels that files can be cut at.
func Scan(cuts jpeg.Cuts) *transcode.Kind {
	s := splitter{cuts}
	return &transcode.Kind{
		Name: "scan", Min: 1, Max: maxLevel,
		Brief: "the JPEG up to this fidelity, 1 to 10, without decoding it; 10 is all of it",
		From:  transcode.Source, To: transcode.Source, ID: s.id(),
		Shape: func(in transcode.Shape, level int) (transcode.Shape, bool) {
			// Fewer scans are another picture. Who calls a JPEG a mask gets all.
			return in, transcodable(in) && (level == maxLevel || !in.Mask)
		},
		Apply: func(ctx context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			split, err := s.split(ctx, in.Bytes, c.Limits, false)
			if err != nil {
				return transcode.Payload{}, err
			}
			return transcode.Payload{Bytes: append(split.Data[:split.Ends[split.Levels[c.Arg-1]-1]], split.Tail...)}, nil
		},
		Split: s.split,
		Restore: func(_ context.Context, whole, data []byte, lim transcode.Limits) ([]byte, error) {
			return jpeg.Restore(whole, data, jpeg.LimitsOf(lim))
		},
	}
}

// transcodable reports whether package jpeg can take the sample apart.
func transcodable(in transcode.Shape) bool {
	return in.Format == transcode.JPEG && in.Scannable
}

// splitter transcodes files to progressive ones.
type splitter struct{ cuts jpeg.Cuts }

// id names what it does: other cuts make other files.
func (s splitter) id() string {
	id := "jpeg1"
	if !s.cuts.All() {
		for _, k := range s.cuts.Levels() {
			id += fmt.Sprintf(".%d", k)
		}
	}
	return id
}

// CutsOf returns the cuts with which a representation was made, given its key.
func CutsOf(key string) (cuts jpeg.Cuts, ok bool) {
	list, ok := strings.CutPrefix(key, "scan@jpeg1")
	if !ok || list == "" {
		return 0, ok
	}
	var levels []int
	for word := range strings.SplitSeq(strings.TrimPrefix(list, "."), ".") {
		var k int
		if _, err := fmt.Sscan(word, &k); err != nil || k < 1 || k > maxLevel {
			return 0, false
		}
		levels = append(levels, k)
	}
	cuts = jpeg.CutsAt(levels...)
	return cuts, splitter{cuts}.id() == "jpeg1"+list
}

// split makes the parts of a file: the scans up to the first cut, those up to the
// next one, and so on. What all levels share, the end of the file, is no part.
func (s splitter) split(_ context.Context, src []byte, lim transcode.Limits, reconstruct bool) (transcode.Split, error) {
	scans, err := jpeg.Transcode(src, jpeg.Options{Limits: jpeg.LimitsOf(lim), Cuts: s.cuts, Reconstruct: reconstruct})
	if errors.Is(err, transcode.ErrBad) || errors.Is(err, transcode.ErrTruncated) {
		// What is damaged and has pixels all the same is a picture; its scans would
		// hide the damage.
		if _, repaired := jpeg.DecodePixels(src, 8, jpeg.LimitsOf(lim)); repaired == nil {
			err = transcode.Errorf(transcode.ErrUnsupported, "damaged, so that it has no scans: %v", err)
		}
	}
	if err != nil {
		return transcode.Split{}, err
	}
	split := transcode.Split{Tail: jpeg.EOI[:], Reconstruction: scans.Reconstruction}
	last := uint8(0)
	for _, n := range scans.Levels {
		if n > last {
			// The scans in between can be told apart only where all are cuts.
			if s.cuts.All() {
				split.Ends = append(split.Ends, scans.Ends[last:n]...)
			} else {
				split.Ends = append(split.Ends, scans.Ends[n-1])
			}
			last = n
		}
		split.Levels = append(split.Levels, len(split.Ends))
	}
	split.Data = scans.Data[:split.Ends[len(split.Ends)-1]]
	return split, nil
}
