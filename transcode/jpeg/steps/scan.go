package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/raster"
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

// Baseline is the step `baseline`.
func Baseline() *transcode.Kind {
	return &transcode.Kind{
		Name:  "baseline",
		Brief: "the JPEG as a sequential file, which some decoders read faster than a progressive one",
		From:  transcode.Source, To: transcode.Source, ID: "jpeg1",
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) { return in, transcodable(in) },
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			out, err := jpeg.Sequential(in.Bytes, jpeg.LimitsOf(c.Limits))
			return transcode.Payload{Bytes: out}, err
		},
	}
}

// Scaled returns the steps `half`, `quarter` and `eighth`.
func Scaled() []*transcode.Kind {
	return []*transcode.Kind{
		scaled("half", "half", 2), scaled("quarter", "a quarter", 4), scaled("eighth", "an eighth", 8),
	}
}

func scaled(name, text string, scale int) *transcode.Kind {
	return &transcode.Kind{
		Name:  name,
		Brief: "the JPEG decoded to " + text + " of its width and height, as libjpeg's scaling does; other formats are scaled to that as resize does it",
		From:  transcode.Source, To: transcode.Picture, ID: "libjpeg1", Effect: transcode.Resampling,
		Follow: raster.Scaling(name, "bilinear1", func(width, height, _ int) (int, int) {
			return jpeg.ScaledSize(width, height, scale)
		}),
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Stage, out.Type, out.Scannable = transcode.Picture, transcode.Uint8, false
			out.Width, out.Height = jpeg.ScaledSize(in.Width, in.Height, scale)
			// Labels cannot be blended, and a reduced transform blends.
			return out, transcodable(in) && in.Mode != transcode.ModeNone && !in.Mask
		},
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			h, err := header(in.Bytes, c.Limits)
			if err != nil {
				return transcode.Payload{}, err
			}
			px, err := decode(h, in.Bytes, scale, c.Limits)
			return transcode.Payload{Pixels: px}, err
		},
	}
}
