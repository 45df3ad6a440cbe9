// Package webp reads WebP files.
//
// # Nouns
//
// A file is a RIFF container of chunks. A plain file has one: VP8, lossy, or
// VP8L, lossless. An extended file begins with VP8X, which tells the size of the
// canvas and what else there is: ALPH (the alpha of a lossy picture), ICCP, EXIF,
// ANIM and a chunk ANMF for each frame.
//
// # What is read, and as what
//
// Still pictures, as Pillow reads them: RGBA where the file says that there is
// alpha, otherwise RGB. The planes of a lossy picture come from package
// golang.org/x/image/vp8, whose result the format defines to the bit. The upsampling of
// colours is that of libwebp.
// Animations are unsupported.
package webp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"image"
	"io"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"
	"golang.org/x/image/webp"

	"github.com/pipefs/pipefs/transcode"
)

// Flags of VP8X.
const (
	flagAnimated = 1 << 1
	flagEXIF     = 1 << 3
	flagAlpha    = 1 << 4
	flagICC      = 1 << 5
)

const (
	// maxMeta bounds a metadata chunk that is kept, in bytes.
	maxMeta = 8 << 20
	// maxChunks bounds the walk.
	maxChunks = 1 << 16
)

// header is what the chunks say before the pixels are decoded.
type header struct {
	width, height int
	alpha         bool
	animated      bool
	lossless      bool
	flags         byte
	exif, icc     []byte
	data          []byte // of VP8 or VP8L; its beginning only where probed
	alphaData     []byte // of ALPH
}

// chunk is a chunk's place in the file.
type chunk struct {
	kind string
	at   int64 // of the data
	size int64
}

// walk calls f for each chunk, in order, until it returns false.
func walk(w *transcode.Window, f func(c chunk) (bool, error)) error {
	b, err := w.At(0, 12)
	if err != nil {
		return err
	}
	if !(Decoder{}).Sniff(b) {
		return transcode.Errorf(transcode.ErrBad, "not a WebP file")
	}
	end := 8 + int64(binary.LittleEndian.Uint32(b[4:]))
	at := int64(12)
	for n := 0; at+8 <= end; n++ {
		if n == maxChunks {
			return transcode.Errorf(transcode.ErrUnsupported, "WebP of more than %d chunks", maxChunks)
		}
		if b, err = w.At(at, 8); err != nil {
			return err
		}
		c := chunk{string(b[:4]), at + 8, int64(binary.LittleEndian.Uint32(b[4:]))}
		if more, err := f(c); err != nil || !more {
			return err
		}
		at = c.at + c.size + c.size&1
	}
	return nil
}

// parse reads the header of a file. With whole set it keeps what Decode needs.
func parse(r io.ReaderAt, size int64, lim transcode.Limits, whole bool) (*header, error) {
	h := &header{}
	w := transcode.NewWindow(r, size)
	keep := func(c chunk) ([]byte, error) {
		if c.size > maxMeta && c.kind != "VP8 " && c.kind != "VP8L" && c.kind != "ALPH" {
			return nil, nil
		}
		b, err := w.At(c.at, int(c.size))
		return bytes.Clone(b), err
	}
	err := walk(w, func(c chunk) (bool, error) {
		var err error
		switch c.kind {
		case "VP8X":
			if h.width != 0 || c.size < 10 {
				return false, transcode.Errorf(transcode.ErrBad, "WebP: VP8X of %d bytes", c.size)
			}
			b, err := w.At(c.at, 10)
			if err != nil {
				return false, err
			}
			h.flags = b[0]
			h.animated = b[0]&flagAnimated != 0
			h.width, h.height = 1+int(uint24(b[4:])), 1+int(uint24(b[7:]))
		case "VP8 ", "VP8L":
			if h.data != nil {
				return true, nil // only the first one counts
			}
			if err := h.pixels(w, c); err != nil {
				return false, err
			}
			if whole {
				if h.data, err = keep(c); err != nil {
					return false, err
				}
			}
		case "ALPH":
			if h.data != nil {
				return true, nil
			}
			h.alpha = true
			if whole {
				h.alphaData, err = keep(c)
			}
		case "EXIF":
			if h.exif == nil {
				h.exif, err = keep(c)
			}
			h.exif = bytes.TrimPrefix(h.exif, []byte("Exif\x00\x00"))
		case "ICCP":
			if h.icc == nil && whole {
				h.icc, err = keep(c)
			}
		}
		if err != nil {
			return false, err
		}
		// Metadata may follow the pixels, where VP8X says that there is any.
		return h.data == nil || h.flags&flagEXIF != 0 && h.exif == nil, nil
	})
	switch {
	case err != nil && h.data == nil:
		return nil, err
	case h.width == 0 || h.data == nil && !h.animated:
		return nil, transcode.Errorf(transcode.ErrTruncated, "WebP without a picture")
	}
	return h, lim.CheckSize(h.width, h.height)
}

// pixels reads the size and the alpha of a VP8 or VP8L chunk.
func (h *header) pixels(w *transcode.Window, c chunk) error {
	b, err := w.At(c.at, int(min(10, c.size)))
	if err != nil {
		return err
	}
	var width, height int
	switch {
	case c.kind == "VP8L" && len(b) >= 5 && b[0] == 0x2f:
		bits := binary.LittleEndian.Uint32(b[1:])
		width, height = 1+int(bits&0x3fff), 1+int(bits>>14&0x3fff)
		h.lossless = true
		h.alpha = bits>>28&1 != 0
	case c.kind == "VP8 " && len(b) >= 10 && b[3] == 0x9d && b[4] == 1 && b[5] == 0x2a:
		width, height = int(binary.LittleEndian.Uint16(b[6:])&0x3fff), int(binary.LittleEndian.Uint16(b[8:])&0x3fff)
	default:
		return transcode.Errorf(transcode.ErrBad, "WebP: a %s chunk begins with % x", c.kind, b)
	}
	if h.width != 0 && (width != h.width || height != h.height) {
		return transcode.Errorf(transcode.ErrBad, "WebP: %d by %d pixels on a canvas of %d by %d", width, height, h.width, h.height)
	}
	h.width, h.height = width, height
	h.data = []byte{}
	return nil
}

func uint24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// mode is what the picture decodes to.
func (h *header) mode() transcode.Mode {
	switch {
	case h.animated:
		return transcode.ModeNone
	case h.alpha:
		return transcode.ModeRGBA
	}
	return transcode.ModeRGB
}

// Decoder is the [transcode.Decoder] of WebP.
type Decoder struct{}

// Format returns transcode.WebP.
func (Decoder) Format() transcode.Format { return transcode.WebP }

// ID names this implementation.
func (Decoder) ID() string { return "webp1" }

// Extensions of WebP files.
func (Decoder) Extensions() []string { return []string{"webp"} }

// Sniff looks for the container's two signatures.
func (Decoder) Sniff(head []byte) bool {
	return len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP"
}

// Probe reads the chunks' headers. An animation has ModeNone.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	h, err := parse(r, size, lim, false)
	if err != nil {
		return transcode.Info{}, err
	}
	return transcode.Info{
		Format: transcode.WebP, Mode: h.mode(), Width: h.width, Height: h.height,
		Orientation: transcode.EXIFOrientation(h.exif), Animated: h.animated, Lossy: !h.lossless,
	}, nil
}

// Scratch implements [transcode.Scratcher]: the picture as it is before it is copied.
func (Decoder) Scratch(_ []byte, info transcode.Info, _ bool) int64 {
	pixels := int64(info.Width) * int64(info.Height)
	if info.Lossy { // YCbCr, and alpha
		return pixels * 5 / 2
	}
	return 4 * pixels
}

// Decode decodes a still picture.
func (Decoder) Decode(_ context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	h, err := parse(bytes.NewReader(src), int64(len(src)), lim, true)
	if err != nil {
		return nil, err
	}
	if h.animated {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "animated WebP")
	}
	px := &transcode.Pixels{Width: h.width, Height: h.height, Mode: h.mode()}
	px.Meta = transcode.Metadata{EXIF: h.exif, ICC: h.icc, Orientation: transcode.EXIFOrientation(h.exif)}
	switch {
	case h.lossless:
		err = lossless(px, h)
	case h.alpha:
		err = withAlpha(px, src)
	default:
		err = lossy(px, h)
	}
	if err != nil {
		return nil, err
	}
	return px, nil
}

// streamError classifies an error of x/image.
func streamError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return transcode.Errorf(transcode.ErrTruncated, "WebP: %v", err)
	}
	return transcode.Errorf(transcode.ErrBad, "WebP: %v", err)
}

func lossless(px *transcode.Pixels, h *header) error {
	img, err := vp8l.Decode(bytes.NewReader(h.data))
	if err != nil {
		return streamError(err)
	}
	m, ok := img.(*image.NRGBA)
	if !ok || m.Rect != image.Rect(0, 0, px.Width, px.Height) {
		return transcode.Errorf(transcode.ErrBad, "WebP: %T of %v", img, img.Bounds())
	}
	if px.Mode == transcode.ModeRGBA {
		px.Pix = m.Pix[:px.Len()]
		return nil
	}
	px.Pix = make([]byte, px.Len())
	for dst, src := px.Pix, m.Pix; len(dst) >= 3 && len(src) >= 4; dst, src = dst[3:], src[4:] {
		dst[0], dst[1], dst[2] = src[0], src[1], src[2]
	}
	return nil
}

func lossy(px *transcode.Pixels, h *header) error {
	d := vp8.NewDecoder()
	d.Init(bytes.NewReader(h.data), len(h.data))
	if _, err := d.DecodeFrameHeader(); err != nil {
		return streamError(err)
	}
	m, err := d.DecodeFrame()
	if err != nil {
		return streamError(err)
	}
	return toRGB(px, m)
}

// withAlpha leaves the alpha, a format of its own, to package x/image/webp.
func withAlpha(px *transcode.Pixels, src []byte) error {
	img, err := webp.Decode(bytes.NewReader(src))
	if err != nil {
		return streamError(err)
	}
	m, ok := img.(*image.NYCbCrA)
	if !ok {
		return transcode.Errorf(transcode.ErrBad, "WebP: %T where there should be alpha", img)
	}
	if err := toRGB(px, &m.YCbCr); err != nil {
		return err
	}
	for y := range px.Height {
		for x := range px.Width {
			px.Pix[(y*px.Width+x)*4+3] = m.A[y*m.AStride+x]
		}
	}
	return nil
}

// toRGB fills px with the colours of planes at 4:2:0 as libwebp does by default:
// each pixel mixes the four nearest chroma samples 9:3:3:1, in two rounded steps.
func toRGB(px *transcode.Pixels, m *image.YCbCr) error {
	width, height := px.Width, px.Height
	if m.Rect.Dx() < width || m.Rect.Dy() < height || m.SubsampleRatio != image.YCbCrSubsampleRatio420 {
		return transcode.Errorf(transcode.ErrBad, "WebP: planes of %v", m.Rect)
	}
	px.Pix = make([]byte, px.Len())
	channels := px.Mode.Channels()
	half := (width + 1) / 2
	us, vs := make([]byte, width), make([]byte, width)
	for y := range height {
		// The chroma row that is nearer, and the one on the other side of the
		// pixel; at the edges they are the same.
		near := y / 2
		far := near - 1
		if y%2 == 1 {
			far = near + 1
		}
		far = min(max(far, 0), (height+1)/2-1)
		row := func(plane []byte, at int) []byte { return plane[at*m.CStride:][:half] }
		upsample(us, row(m.Cb, near), row(m.Cb, far))
		upsample(vs, row(m.Cr, near), row(m.Cr, far))
		luma := m.Y[y*m.YStride:][:width]
		dst := px.Pix[y*px.RowBytes():]
		for x, l := range luma {
			d := dst[x*channels : x*channels+channels]
			d[0], d[1], d[2] = rgb(int(l), int(us[x]), int(vs[x]))
		}
	}
	return nil
}

// upsample doubles a row of chroma. near and far are the two rows around the
// row of pixels.
func upsample(dst, near, far []byte) {
	n := len(near)
	dst[0] = byte((3*int(near[0]) + int(far[0]) + 2) >> 2)
	for x := 1; x < n; x++ {
		a, b := int(near[x-1]), int(near[x])
		c, d := int(far[x-1]), int(far[x])
		sum := a + b + c + d + 8
		// The diagonals that do not go through the sample that weighs 9.
		left, right := (sum+2*(b+c))>>3, (sum+2*(a+d))>>3
		dst[2*x-1] = byte((left + a) >> 1)
		if 2*x < len(dst) {
			dst[2*x] = byte((right + b) >> 1)
		}
	}
	if last := len(dst) - 1; last%2 == 1 {
		dst[last] = byte((3*int(near[n-1]) + int(far[n-1]) + 2) >> 2)
	}
}

// rgb converts in libwebp's fixed point: BT.601, studio range, six bits after
// the point.
func rgb(y, u, v int) (r, g, b byte) {
	luma := y * 19077 >> 8
	return clip(luma + v*26149>>8 - 14234), clip(luma - u*6419>>8 - v*13320>>8 + 8708), clip(luma + u*33050>>8 - 17685)
}

func clip(v int) byte { return byte(min(max(v, 0)>>6, 255)) }
