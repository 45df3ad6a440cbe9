package jpeg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"strings"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/raster"
)

// Decoder is the [transcode.Decoder] of JPEG.
type Decoder struct{}

// Format returns transcode.JPEG.
func (Decoder) Format() transcode.Format { return transcode.JPEG }

// ID names the pixels, not the program: any decoder that agrees with libjpeg's
// defaults bit for bit shares it.
func (Decoder) ID() string { return "libjpeg1" }

// Extensions of JPEG files.
func (Decoder) Extensions() []string { return []string{"jpg", "jpeg", "jpe", "jfif"} }

// Sniff looks for SOI and the beginning of another marker.
func (Decoder) Sniff(head []byte) bool {
	return len(head) >= 3 && head[0] == 0xff && head[1] == 0xd8 && head[2] == 0xff
}

// Probe reads the header up to the first scan.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	h, err := readHeader(r, size, lim)
	if err != nil {
		return transcode.Info{}, err
	}
	if err := lim.CheckSize(h.Width, h.Height); err != nil {
		return transcode.Info{}, err
	}
	info := transcode.Info{
		Format: transcode.JPEG, Width: h.Width, Height: h.Height,
		Orientation: h.Orientation, Scannable: scannable(&h),
	}
	if decodable(&h) {
		info.Mode = transcode.ModeRGB
	}
	return info, nil
}

// maxHead is how far into a file its first scan may begin, in bytes: the largest
// colour profile takes half of that, and no file is read whole for its header.
const maxHead = 32 << 20

// readHeader reads as much of the file as the header takes: usually one block,
// more where there is a thumbnail or a colour profile.
func readHeader(r io.ReaderAt, size int64, lim transcode.Limits) (Header, error) {
	for n := 4 << 10; ; {
		b, err := transcode.ReadHead(r, size, n)
		if err != nil {
			return Header{}, err
		}
		h, err := ParseHeader(b, LimitsOf(lim))
		var e *Error
		if err == nil || int64(len(b)) == size || !errors.As(err, &e) || e.Need == 0 {
			return h, err
		}
		if n == maxHead {
			return h, transcode.Errorf(transcode.ErrUnsupported, "JPEG without a picture in its first %d bytes", maxHead)
		}
		n = min(max(4*n, e.Need), maxHead)
	}
}

// scannable reports whether the file can be stored scan by scan: whether
// package jpeg transcodes it, as far as the header tells.
func scannable(h *Header) bool {
	n := len(h.Components)
	if h.Precision != 8 || h.Coding > CodingProgressive || h.Model == ModelUnknown {
		return false
	}
	blocks := 0
	for i, c := range h.Components {
		for _, other := range h.Components[:i] {
			if other.ID == c.ID {
				return false
			}
		}
		blocks += c.H * c.V
	}
	return n == 1 || blocks <= 10
}

// decodable reports whether there are pixels for the file, on every machine: not for
// arithmetic coding, which is rare, and which browsers do not read either.
func decodable(h *Header) bool {
	maxH, maxV := 1, 1
	for _, c := range h.Components {
		maxH, maxV = max(maxH, c.H), max(maxV, c.V)
	}
	for _, c := range h.Components {
		if len(h.Components) > 1 && (maxH%c.H != 0 || maxV%c.V != 0) {
			return false
		}
	}
	return h.Precision == 8 && h.Coding <= CodingProgressive && h.Model != ModelUnknown
}

// Scratch implements [transcode.Scratcher]: coefficients, and channels that become others.
func (Decoder) Scratch(src []byte, info transcode.Info, parts bool) (bytes int64) {
	h, err := ParseHeader(src, Limits{})
	if err != nil {
		return 0
	}
	bytes = int64(len(src)) // entropy-coded data, without stuffing
	switch {
	case parts: // and what is encoded of them
		return 12*bytes + h.CoefficientBytes()*3/2
	case channels(&h) == 4:
		bytes += (4 + 3) * int64(h.Width) * int64(h.Height)
	}
	if !h.OneScan(src) {
		bytes += h.CoefficientBytes()
	}
	return bytes
}

// Decode decodes a whole file to RGB.
func (Decoder) Decode(_ context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	h, err := header(src, lim)
	if err != nil {
		return nil, err
	}
	return decode(h, src, 1, lim)
}

// DecodeRegion implements [transcode.RegionDecoder].
func (Decoder) DecodeRegion(_ context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle) (*transcode.Pixels, error) {
	h, err := header(src, lim)
	if err != nil {
		return nil, err
	}
	if err := info.Verify(h.Width, h.Height, transcode.ModeRGB); err != nil {
		return nil, err
	}
	m, err := DecodeRegion(src, r, LimitsOf(lim))
	if err != nil {
		return nil, err
	}
	return pixels(h, m), nil
}

// Fill implements [transcode.Filler]. Pixels of three bytes go where they are wanted at once.
func (d Decoder) Fill(ctx context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle, dst []byte, at transcode.Layout) error {
	if at.Pixel == 3 && (at.Channel == 1 || at.Channel == -1) {
		h, err := header(src, lim)
		if err != nil {
			return err
		}
		if err := info.Verify(h.Width, h.Height, transcode.ModeRGB); err != nil {
			return err
		}
		if channels(h) == 3 {
			_, err := decodePixels(src, wanted{scale: 1, region: r, into: &transcode.Target{Pix: dst, Layout: at}}, LimitsOf(lim))
			return err
		}
	}
	px, err := d.DecodeRegion(ctx, src, lim, info, r)
	if err != nil {
		return err
	}
	transcode.Place(px, px.Bounds(), dst, at)
	return nil
}

// decode makes RGB pixels at 1/scale of the size with our own decoder.
func decode(h *Header, src []byte, scale int, lim transcode.Limits) (*transcode.Pixels, error) {
	m, err := DecodePixels(src, scale, LimitsOf(lim))
	if err != nil {
		return nil, err
	}
	return pixels(h, m), nil
}

// header reads the header of a whole file and refuses, before any memory is
// spent, what cannot be decoded.
func header(src []byte, lim transcode.Limits) (*Header, error) {
	limits := LimitsOf(lim)
	h, err := ParseHeader(src, limits)
	if err != nil {
		return nil, err
	}
	if err := lim.CheckSize(h.Width, h.Height); err != nil {
		return nil, err
	}
	if !decodable(&h) {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "JPEG of %v coding, %d bits, %d components", h.Coding, h.Precision, len(h.Components))
	}
	// Each scan of a progressive file passes over the whole picture, however few
	// bytes it takes.
	if n := bytes.Count(src[h.ScanOffset:], []byte{0xff, 0xda}); h.Coding != CodingBaseline && n > limits.MaxScans {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "JPEG of %d scans, the limit is %d; --max-scans raises it", n, limits.MaxScans)
	}
	return &h, nil
}

// channels is how many libjpeg makes of the picture for us.
func channels(h *Header) int {
	if h.Model == ModelCMYK || h.Model == ModelYCCK {
		return 4
	}
	return 3
}

// pixels adds the metadata, and makes RGB of CMYK.
func pixels(h *Header, m *Image) *transcode.Pixels {
	px := &transcode.Pixels{Width: m.Width, Height: m.Height, Mode: transcode.ModeRGB, Pix: m.Pix, Lent: m.Channels == 3}
	px.Meta = transcode.Metadata{
		// Copies: the file must not be kept alive by what a header says.
		EXIF: bytes.Clone(h.EXIF), ICC: bytes.Clone(h.ICC), Orientation: h.Orientation,
	}
	if m.Channels == 4 {
		px.Pix = make([]byte, px.Len())
		fromCMYK(px.Pix, m.Pix)
	}
	return px
}

// fromCMYK converts inverted CMYK to RGB with Pillow's rounding: white minus
// black, less the part of it that the ink takes.
func fromCMYK(dst, src []byte) {
	for ; len(dst) >= 3 && len(src) >= 4; dst, src = dst[3:], src[4:] {
		white := int(src[3])
		for i := range 3 {
			t := int(255-src[i])*white + 128
			dst[i] = byte(white - (t>>8+t)>>8)
		}
	}
}

// maxLevel is the level at which nothing is missing.
const maxLevel = len(Scans{}.Levels)

// Scan is the step `scan`, with the levels that files can be cut at.
func Scan(cuts Cuts) *transcode.Kind {
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
			return Restore(whole, data, LimitsOf(lim))
		},
	}
}

// transcodable reports whether package jpeg can take the sample apart.
func transcodable(in transcode.Shape) bool {
	return in.Format == transcode.JPEG && in.Scannable
}

// splitter transcodes files to progressive ones.
type splitter struct{ cuts Cuts }

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
func CutsOf(key string) (cuts Cuts, ok bool) {
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
	cuts = CutsAt(levels...)
	return cuts, splitter{cuts}.id() == "jpeg1"+list
}

// split makes the parts of a file: the scans up to the first cut, those up to the
// next one, and so on. What all levels share, the end of the file, is no part.
func (s splitter) split(_ context.Context, src []byte, lim transcode.Limits, reconstruct bool) (transcode.Split, error) {
	scans, err := Transcode(src, Options{Limits: LimitsOf(lim), Cuts: s.cuts, Reconstruct: reconstruct})
	if errors.Is(err, transcode.ErrBad) || errors.Is(err, transcode.ErrTruncated) {
		// What is damaged and has pixels all the same is a picture; its scans would
		// hide the damage.
		if _, repaired := DecodePixels(src, 8, LimitsOf(lim)); repaired == nil {
			err = transcode.Errorf(transcode.ErrUnsupported, "damaged, so that it has no scans: %v", err)
		}
	}
	if err != nil {
		return transcode.Split{}, err
	}
	split := transcode.Split{Tail: EOI[:], Reconstruction: scans.Reconstruction}
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
			out, err := Sequential(in.Bytes, LimitsOf(c.Limits))
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
			return ScaledSize(width, height, scale)
		}),
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Stage, out.Type, out.Scannable = transcode.Picture, transcode.Uint8, false
			out.Width, out.Height = ScaledSize(in.Width, in.Height, scale)
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
