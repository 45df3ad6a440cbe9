package loader

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/transcode"
)

// arrayMagic begins every .npy file.
var arrayMagic = []byte("\x93NUMPY")

// Decoder decodes to pixels every format that r knows, and does nothing with other
// files.
func Decoder(r *transcode.Registry) func(context.Context, []byte) error {
	pixels, err := r.Parse("npy")
	return func(ctx context.Context, data []byte) error {
		if err != nil || bytes.HasPrefix(data, arrayMagic) {
			return err
		}
		info, err := r.ProbeBytes(data)
		if errors.Is(err, transcode.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		plan := r.Plan(pixels, info, transcode.Image)
		if plan.Unchanged() {
			return nil
		}
		_, err = plan.Run(ctx, data)
		return err
	}
}

// Load does with a file what Pillow does in Image.open(f).convert("RGB"): it decodes into
// pixels of four bytes, and copies those. It leaves .npy files as they are, since their
// bytes are the array, and files that no codec supports.
func Load(r *transcode.Registry) func(context.Context, []byte) error {
	return func(ctx context.Context, data []byte) error {
		if bytes.HasPrefix(data, arrayMagic) {
			return nil
		}
		px, err := r.Decode(ctx, data)
		if errors.Is(err, transcode.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		loaded, converted := borrow(4*px.Width*px.Height), borrow(4*px.Width*px.Height)
		spread(loaded, px)
		copy(converted, loaded)
		giveBack(loaded)
		giveBack(converted)
		return nil
	}
}

// buffers are kept for the next picture, as malloc keeps the memory that Pillow frees.
var buffers sync.Pool

func borrow(n int) []byte {
	if b, ok := buffers.Get().(*[]byte); ok && cap(*b) >= n {
		return (*b)[:n]
	}
	return make([]byte, n)
}

func giveBack(b []byte) { buffers.Put(&b) }

// spread writes pixels as red, green, blue and 255. Of 16 bits it takes the upper 8.
func spread(dst []byte, px *transcode.Pixels) {
	size, step := px.Type.Size(), px.Mode.Channels()*px.Type.Size()
	src := px.Pix
	switch {
	case px.Mode == transcode.ModeRGB:
		for ; len(dst) >= 4 && len(src) >= 4; dst, src = dst[4:], src[3:] {
			binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(src)|0xff000000)
		}
		if len(dst) >= 4 && len(src) >= 3 { // the last, which nothing follows
			dst[0], dst[1], dst[2], dst[3] = src[0], src[1], src[2], 255
		}
	case px.Mode == transcode.ModeP:
		for ; len(dst) >= 4 && len(src) >= 1; dst, src = dst[4:], src[1:] {
			var colour [4]byte
			if at := 4 * int(src[0]); at+4 <= len(px.Palette) {
				copy(colour[:], px.Palette[at:])
			}
			dst[0], dst[1], dst[2], dst[3] = colour[0], colour[1], colour[2], 255
		}
	case px.Mode == transcode.ModeBit:
		for ; len(dst) >= 4 && len(src) >= 1; dst, src = dst[4:], src[1:] {
			dst[0], dst[1], dst[2], dst[3] = -src[0], -src[0], -src[0], 255
		}
	case px.Mode.Channels() <= 2: // grey, with alpha or without
		for ; len(dst) >= 4 && len(src) >= step; dst, src = dst[4:], src[step:] {
			v := src[size-1]
			dst[0], dst[1], dst[2], dst[3] = v, v, v, 255
		}
	default:
		for ; len(dst) >= 4 && len(src) >= step; dst, src = dst[4:], src[step:] {
			dst[0], dst[1], dst[2], dst[3] = src[size-1], src[2*size-1], src[3*size-1], 255
		}
	}
}

// Work is what a loader does to each picture after it is decoded; the batches are uint8,
// (height, width, channels). Without transforms the files are what the training gets.
type Work struct {
	Transforms []Transform `json:"transforms"`
}

// Transform is one of torchvision.transforms, with the arguments of its constructor.
type Transform struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
	text string
}

// String is as one writes it in Python.
func (t Transform) String() string { return t.text }

// String names the transforms as one writes them in Python.
func (w Work) String() string {
	words := make([]string, len(w.Transforms))
	for i, t := range w.Transforms {
		words[i] = t.String()
	}
	return strings.Join(words, ", ")
}

// WorkOf is what a loader of plain files does for the same pixels as a view has. key is the
// same for views that need the same work. ok is false for steps that torchvision does not
// have.
func WorkOf(p transcode.Pipeline) (w Work, key string, ok bool) {
	var words []string
	w.Transforms = []Transform{}
	for _, s := range p.Steps() {
		t, is := transformOf(s)
		switch {
		case is:
			w.Transforms = append(w.Transforms, t)
			words = append(words, s.String())
		case slices.Contains(elsewhere, s.Kind.Name), s.Kind.To == transcode.File, s.Kind.From&transcode.Source != 0:
		default:
			return Work{}, "", false
		}
	}
	return w, strings.Join(words, "-"), true
}

// elsewhere are steps that change no pixels.
var elsewhere = []string{"decode", "chw"}

// transformOf is the transform that a step is.
func transformOf(s transcode.Step) (t Transform, ok bool) {
	t.Args = map[string]any{}
	switch s.Kind.Name {
	case "rrc":
		t.Name, t.Args["size"] = "RandomResizedCrop", s.Arg
	case "randcrop":
		// What is missing at the edges is 0, as in the view.
		t.Name, t.Args["size"], t.Args["pad_if_needed"] = "RandomCrop", s.Arg, true
	case "pad":
		t.Name, t.Args["padding"] = "Pad", s.Arg
	case "resize":
		t.Name, t.Args["size"] = "Resize", s.Arg
	case "crop":
		t.Name, t.Args["size"] = "CenterCrop", s.Arg
	case "hflip":
		t.Name = "RandomHorizontalFlip"
	default:
		return t, false
	}
	t.text = t.Name + "("
	if s.Kind.Max != 0 {
		t.text += fmt.Sprint(s.Arg)
	}
	for i, word := range s.Kind.Words {
		switch r := s.Words[i]; {
		case !r.Given:
		case word.Max == 0:
			t.Args["interpolation"] = "bicubic"
			t.text += ", interpolation=BICUBIC"
		default:
			from, to := float64(r.From)/100, float64(r.To)/100
			t.Args[word.Name] = []float64{from, to}
			t.text += fmt.Sprintf(", %s=(%v, %v)", word.Name, from, to)
		}
	}
	t.text += ")"
	return t, true
}
