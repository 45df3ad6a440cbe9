package steps

import (
	"bytes"
	"context"
	"errors"
	"image"
	"io"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
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
		Orientation: uint8(h.Orientation), Scannable: scannable(&h),
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
func readHeader(r io.ReaderAt, size int64, lim transcode.Limits) (jpeg.Header, error) {
	for n := 4 << 10; ; {
		b, err := transcode.ReadHead(r, size, n)
		if err != nil {
			return jpeg.Header{}, err
		}
		h, err := jpeg.ParseHeader(b, jpeg.LimitsOf(lim))
		var e *jpeg.Error
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
func scannable(h *jpeg.Header) bool {
	n := len(h.Components)
	if h.Precision != 8 || h.Coding > jpeg.CodingProgressive || h.Model == jpeg.ModelUnknown {
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
func decodable(h *jpeg.Header) bool {
	maxH, maxV := 1, 1
	for _, c := range h.Components {
		maxH, maxV = max(maxH, c.H), max(maxV, c.V)
	}
	for _, c := range h.Components {
		if len(h.Components) > 1 && (maxH%c.H != 0 || maxV%c.V != 0) {
			return false
		}
	}
	return h.Precision == 8 && h.Coding <= jpeg.CodingProgressive && h.Model != jpeg.ModelUnknown
}

// Scratch implements [transcode.Scratcher]: coefficients, and channels that become others.
func (Decoder) Scratch(src []byte, info transcode.Info, parts bool) (bytes int64) {
	h, err := jpeg.ParseHeader(src, jpeg.Limits{})
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
	m, err := jpeg.DecodeRegion(src, r, jpeg.LimitsOf(lim))
	if err != nil {
		return nil, err
	}
	return pixels(h, m), nil
}

// Fill implements [transcode.Filler]: what our own decoder takes goes where it is
// wanted at once.
func (d Decoder) Fill(ctx context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle, dst []byte, at transcode.Layout) error {
	if at.Pixel == 3 && (at.Channel == 1 || at.Channel == -1) {
		h, err := header(src, lim)
		if err != nil {
			return err
		}
		if err := info.Verify(h.Width, h.Height, transcode.ModeRGB); err != nil {
			return err
		}
		rows := jpeg.Rows{Pix: dst, Base: at.Base, Row: at.Row}
		if at.Channel < 0 {
			rows.Base, rows.BGR = at.Base-2, true
		}
		if channels(h) == 3 && jpeg.DecodeRows(src, r, rows, jpeg.LimitsOf(lim)) == nil {
			return nil
		}
		// DecodeRegion says why, or knows another way.
	}
	px, err := d.DecodeRegion(ctx, src, lim, info, r)
	if err != nil {
		return err
	}
	transcode.Place(px, px.Bounds(), dst, at)
	return nil
}

// decode makes RGB pixels at 1/scale of the size with our own decoder.
func decode(h *jpeg.Header, src []byte, scale int, lim transcode.Limits) (*transcode.Pixels, error) {
	m, err := jpeg.DecodePixels(src, scale, jpeg.LimitsOf(lim))
	if err != nil {
		return nil, err
	}
	return pixels(h, m), nil
}

// header reads the header of a whole file and refuses, before any memory is
// spent, what cannot be decoded.
func header(src []byte, lim transcode.Limits) (*jpeg.Header, error) {
	limits := jpeg.LimitsOf(lim)
	h, err := jpeg.ParseHeader(src, limits)
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
	if n := bytes.Count(src[h.ScanOffset:], []byte{0xff, 0xda}); h.Coding != jpeg.CodingBaseline && n > limits.MaxScans {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "JPEG of %d scans, the limit is %d; --max-scans raises it", n, limits.MaxScans)
	}
	if h.Coding != jpeg.CodingArithmetic && int64(len(src)-h.ScanOffset)*8 < mcus(&h) {
		return nil, transcode.Errorf(transcode.ErrTruncated, "JPEG of %d by %d pixels in %d bytes", h.Width, h.Height, len(src))
	}
	return &h, nil
}

// channels is how many libjpeg makes of the picture for us.
func channels(h *jpeg.Header) int {
	if h.Model == jpeg.ModelCMYK || h.Model == jpeg.ModelYCCK {
		return 4
	}
	return 3
}

// mcus is the number of minimum coded units, each of which takes at least a bit
// of Huffman codes. A file with fewer bits is not worth the memory it asks for.
func mcus(h *jpeg.Header) int64 {
	maxH, maxV := 1, 1
	for _, c := range h.Components {
		maxH, maxV = max(maxH, c.H), max(maxV, c.V)
	}
	across := int64(h.Width+8*maxH-1) / int64(8*maxH)
	down := int64(h.Height+8*maxV-1) / int64(8*maxV)
	return across * down
}

// pixels adds the metadata, and makes RGB of CMYK.
func pixels(h *jpeg.Header, m *jpeg.Image) *transcode.Pixels {
	px := &transcode.Pixels{Width: m.Width, Height: m.Height, Mode: transcode.ModeRGB, Pix: m.Pix}
	px.Meta = transcode.Metadata{
		// Copies: the file must not be kept alive by what a header says.
		EXIF: bytes.Clone(h.EXIF), ICC: bytes.Clone(h.ICC), Orientation: uint8(h.Orientation),
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
