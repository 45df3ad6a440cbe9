package codectest

import (
	"bytes"
	"fmt"
	"image"
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/transcode"
)

// Regions demands of what a decoder makes of n rectangles of a file, and of corners and
// edges, that it is what is there in the whole picture. What is no RegionDecoder passes.
func Regions(t testing.TB, d transcode.Decoder, src []byte, lim transcode.Limits, n int) {
	t.Helper()
	part, ok := d.(transcode.RegionDecoder)
	if !ok {
		return
	}
	info, err := d.Probe(bytes.NewReader(src), int64(len(src)), lim)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := d.Decode(t.Context(), src, lim)
	if err != nil {
		t.Fatal(err)
	}
	w, h := whole.Width, whole.Height
	all := []image.Rectangle{whole.Bounds(), image.Rect(0, 0, 1, 1), image.Rect(w-1, h-1, w, h), image.Rect(0, h/2, w, h/2+1), image.Rect(w/2, 0, w/2+1, h)}
	rng := rand.New(rand.NewPCG(uint64(len(src)), uint64(w)))
	for range n {
		x, y := rng.IntN(w), rng.IntN(h)
		all = append(all, image.Rect(x, y, x+1+rng.IntN(w-x), y+1+rng.IntN(h-y)))
	}
	for _, r := range all {
		want := whole.Cut(r)
		got, err := part.DecodeRegion(t.Context(), src, lim, info, r)
		if err != nil {
			t.Fatalf("%v of %d×%d: %v", r, w, h, err)
		}
		if difference := differ(got, want); difference != "" {
			t.Fatalf("%v of %d×%d: other %s than in the whole picture", r, w, h, difference)
		}
		if filler, ok := d.(transcode.Filler); ok {
			filled(t, filler, src, lim, info, r, want)
		}
	}
	info.Width++
	if _, err := part.DecodeRegion(t.Context(), src, lim, info, all[1]); err == nil {
		t.Fatal("decoded a picture of another size than its header had")
	}
}

func differ(a, b *transcode.Pixels) string {
	switch {
	case a.Width != b.Width || a.Height != b.Height || a.Mode != b.Mode || a.Type != b.Type || a.Planar != b.Planar:
		return "shape"
	case !bytes.Equal(a.Pix, b.Pix):
		return "pixels"
	case !bytes.Equal(a.Palette, b.Palette):
		return "palette"
	case !bytes.Equal(a.Meta.EXIF, b.Meta.EXIF) || !bytes.Equal(a.Meta.ICC, b.Meta.ICC) || a.Meta.Orientation != b.Meta.Orientation:
		return "metadata"
	}
	return ""
}

// filled demands that a region goes to every layout, and nothing around it changes.
func filled(t testing.TB, d transcode.Filler, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle, want *transcode.Pixels) {
	t.Helper()
	size, channels := want.Type.Size(), want.Mode.Channels()
	row := want.RowBytes()
	layouts := []transcode.Layout{
		{Base: 3, Row: row + 5, Pixel: size * channels, Channel: size},
		{Row: want.Width * size, Pixel: size, Channel: want.Width * want.Height * size},
	}
	if channels == 3 {
		layouts = append(layouts, transcode.Layout{Base: (want.Height-1)*(row+2) + 2*size, Row: -row - 2, Pixel: 3 * size, Channel: -size})
	}
	for _, at := range layouts {
		expected := bytes.Repeat([]byte{0xdb}, (row+5)*want.Height+8)
		got := bytes.Clone(expected)
		transcode.Place(want, want.Bounds(), expected, at)
		if err := d.Fill(t.Context(), src, lim, info, r, got, at); err != nil || !bytes.Equal(got, expected) {
			t.Fatal(fmt.Sprintf("%v as %+v: ", r, at), err)
		}
	}
}
