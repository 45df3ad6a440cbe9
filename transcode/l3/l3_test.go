package l3

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
)

func TestRoundTrip(t *testing.T) {
	for _, mode := range pictures.L3Modes {
		for _, size := range [][2]int{{1, 1}, {1, 40}, {40, 1}, {33, 17}, {64, 64}, {130, 70}, {300, 290}} {
			for _, o := range []Options{{}, {Mode: Fast}, {Mode: V1}, {Patch: 1}, {Patch: 31}, {Patch: 64, Mode: Fast}, {Mode: V1, Patch: 7}} {
				// Small patches of large pictures show nothing new.
				if !Holds(mode, o.Version()) || o.Patch > 0 && size[0]*size[1] > 10_000 || o.Patch == 1 && size[0]*size[1] > 600 {
					continue
				}
				name := fmt.Sprintf("%v %v %+v", mode, size, o)
				px := pictures.Pixels(mode, size[0], size[1])
				if o.Version() == 2 {
					px.Meta = transcode.Metadata{EXIF: []byte("II*\x00exif"), ICC: []byte("profile"), Orientation: 6}
				}
				b, err := Encode(px, o)
				if err != nil {
					t.Fatal(name, err)
				}
				got, err := Decoder{}.Decode(t.Context(), b, transcode.Limits{})
				if err != nil {
					t.Fatal(name, err)
				}
				if !bytes.Equal(got.Pix, px.Pix) {
					t.Fatal(name, "other samples")
				}
				// Without the samples, which cmp looks at one by one.
				px.Pix, got.Pix = nil, nil
				if diff := cmp.Diff(px, got); diff != "" {
					t.Fatal(name, diff)
				}
				codectest.Regions(t, Decoder{}, b, transcode.Limits{}, 4)
				info, err := Decoder{}.Probe(bytes.NewReader(b), int64(len(b)), transcode.Limits{})
				want := transcode.Info{Format: transcode.L3, Mode: mode, Width: size[0], Height: size[1], Orientation: px.Meta.Orientation}
				if err != nil || info != want {
					t.Fatalf("%s: probe says %+v, %v", name, info, err)
				}
			}
		}
	}
}

// TestDamage wants every change of a file of version 2 to be noticed.
func TestDamage(t *testing.T) {
	px := pictures.Pixels(transcode.ModeRGB, 70, 40)
	px.Meta.ICC = []byte("profile")
	b, err := Encode(px, Options{Patch: 32})
	testenv.Must(t, err)
	// All bytes of the header, and some of the rest.
	for i := 0; i < len(b); i += 1 + min(i/200, 1)*6 {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x10
		got, err := Decoder{}.Decode(t.Context(), damaged, transcode.Limits{})
		if err == nil && !cmp.Equal(got, px) {
			t.Fatalf("byte %d of %d: another picture", i, len(b))
		}
		if _, err := (Decoder{}).Decode(t.Context(), b[:i], transcode.Limits{}); err == nil {
			t.Fatalf("cut to %d bytes: no error", i)
		}
	}
	if _, err := (Decoder{}).Decode(t.Context(), append(bytes.Clone(b), 0), transcode.Limits{}); !errors.Is(err, transcode.ErrBad) {
		t.Errorf("a byte too many: %v", err)
	}
	if _, err := (Decoder{}).Decode(t.Context(), b, transcode.Limits{MaxPixels: 100}); !errors.Is(err, transcode.ErrUnsupported) {
		t.Errorf("over the limit: %v", err)
	}
}

// TestRegionOfDamaged: a region is refused if a patch that it touches is damaged, or the file
// is cut short. Other patches it does not read.
func TestRegionOfDamaged(t *testing.T) {
	b, err := Encode(pictures.Pixels(transcode.ModeRGB, 130, 70), Options{Patch: 32})
	testenv.Must(t, err)
	info := transcode.Info{Format: transcode.L3, Mode: transcode.ModeRGB, Width: 130, Height: 70}
	s, err := Open(b, transcode.Limits{})
	testenv.Must(t, err)
	for i, p := range s.patches {
		x, y, width, height := s.rect(i)
		patch := image.Rect(x, y, x+width, y+height)
		wrong := bytes.Clone(b)
		wrong[p.offset+p.length/2] ^= 4
		for _, r := range []image.Rectangle{image.Rect(0, 0, 40, 40), image.Rect(100, 60, 130, 70), image.Rect(60, 33, 61, 34)} {
			_, err := Decoder{}.DecodeRegion(t.Context(), wrong, transcode.Limits{}, info, r)
			if refused := errors.Is(err, transcode.ErrBad); refused != patch.Overlaps(r) || err != nil && !refused {
				t.Errorf("damage in %v, %v: %v", patch, r, err)
			}
			if _, err := (Decoder{}).DecodeRegion(t.Context(), b[:p.offset], transcode.Limits{}, info, r); !errors.Is(err, transcode.ErrTruncated) {
				t.Errorf("%d bytes, %v: %v", p.offset, r, err)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		px *transcode.Pixels
		o  Options
	}{
		"a palette":      {&transcode.Pixels{Width: 1, Height: 1, Mode: transcode.ModeP, Pix: []byte{0}}, Options{}},
		"alpha in v1":    {pictures.Pixels(transcode.ModeRGBA, 4, 4), Options{Mode: V1}},
		"16 bits in v1":  {pictures.Pixels(transcode.ModeI16, 4, 4), Options{Mode: V1}},
		"planes":         {&transcode.Pixels{Width: 1, Height: 1, Mode: transcode.ModeRGB, Planar: true, Pix: []byte{0, 0, 0}}, Options{}},
		"huge patches":   {pictures.Pixels(transcode.ModeL, 4, 4), Options{Patch: MaxPatch + 1}},
		"large v1 patch": {pictures.Pixels(transcode.ModeL, 4, 4), Options{Mode: V1, Patch: 256}},
	} {
		if _, err := Encode(c.px, c.o); !errors.Is(err, transcode.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptionsOf(t *testing.T) {
	for _, o := range []Options{{}, {Mode: Fast}, {Patch: 64}, {Mode: Fast, Patch: 4096}} {
		if got, ok := OptionsOf("decode-l3@png1," + o.id()); !ok || got != o {
			t.Errorf("%+v: %+v, %v", o, got, ok)
		}
	}
	// The names under which files are stored: they have to be found under these forever.
	for key, want := range map[string]Options{
		"decode-l3@png1,l3dense1":    {},
		"decode-l3@tiff1,l3fast2.32": {Mode: Fast, Patch: 32},
	} {
		if got, ok := OptionsOf(key); !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", key, got, ok, want)
		}
	}
	for _, key := range []string{"original", "decode-l3@png1,l3dense2", "decode-l3@png1,l3dense1.0", "decode-l3@png1,l3fast3", "decode-l3@png1,l3v11", "decode-bmp@png1,l3dense1"} {
		if _, ok := OptionsOf(key); ok {
			t.Errorf("%s is taken for a key", key)
		}
	}
}

// TestSides checks that patches are about equal, and not larger than asked.
func TestSides(t *testing.T) {
	for _, c := range [][5]int{
		{481, 321, 0, 241, 192}, {768, 512, 0, 256, 256}, {100, 50, 0, 100, 50}, {257, 257, 0, 129, 160},
		{1, 1, 0, 1, 1}, {500, 375, 64, 63, 64}, {500, 375, 7, 7, 7}, {1000, 1000, 40, 40, 32},
	} {
		if w, h := sides(c[0], c[1], c[2]); w != c[3] || h != c[4] {
			t.Errorf("%d×%d, at most %d: %d×%d, want %d×%d", c[0], c[1], c[2], w, h, c[3], c[4])
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, mode := range pictures.L3Modes {
		for _, o := range []Options{{}, {Mode: Fast}, {Mode: V1}} {
			if b, err := Encode(pictures.Pixels(mode, 20, 13), o); err == nil {
				f.Add(b)
			}
		}
	}
	lim := transcode.Limits{MaxPixels: 1 << 16}
	f.Fuzz(func(t *testing.T, src []byte) {
		info, probeErr := Decoder{}.Probe(bytes.NewReader(src), int64(len(src)), lim)
		px, err := Decoder{}.Decode(t.Context(), src, lim)
		if err != nil {
			for _, kind := range []error{transcode.ErrBad, transcode.ErrUnsupported, transcode.ErrTruncated} {
				if errors.Is(err, kind) {
					return
				}
			}
			t.Fatal(err)
		}
		if probeErr != nil || info.Width != px.Width || info.Height != px.Height || info.Mode != px.Mode || len(px.Pix) != px.Len() {
			t.Fatalf("probe says %+v, %v; decoded %v %d×%d", info, probeErr, px.Mode, px.Width, px.Height)
		}
		codectest.Regions(t, Decoder{}, src, lim, 3)
	})
}

// TestParts wants the patches of all versions to be where the decoder has them.
func TestParts(t *testing.T) {
	px := pictures.Pixels(transcode.ModeRGB, 70, 45)
	for _, mode := range []Mode{Dense, Fast, V1} {
		b, err := Encode(px, Options{Mode: mode, Patch: 32})
		testenv.Must(t, err)
		s, err := Open(b, transcode.Limits{})
		testenv.Must(t, err)
		parts, err := s.Parts()
		if err != nil || len(parts) != s.Columns()*2 {
			t.Fatalf("%v: %d parts, %v", mode, len(parts), err)
		}
		if err := s.Verify(); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		at := parts[0].Offset[0]
		for c := range 3 {
			for i, p := range parts {
				if mode == V1 && p.Offset[c] != at || mode != V1 && c == 0 && p.Offset[0] != s.patches[i].offset {
					t.Errorf("%v: patch %d, channel %d at %d", mode, i, c, p.Offset[c])
				}
				at += p.Length[c]
			}
		}
		if mode == V1 && at != len(b) {
			t.Errorf("parts end at %d of %d bytes", at, len(b))
		}
		if mode == V1 {
			s.src = b[:len(b)-1]
			if _, err := s.Parts(); !errors.Is(err, transcode.ErrTruncated) {
				t.Errorf("a file that ends early: %v", err)
			}
			s.src = b[:20]
			if _, err := s.Parts(); !errors.Is(err, transcode.ErrTruncated) {
				t.Errorf("a file that ends in its table: %v", err)
			}
			continue
		}
		b[parts[1].Offset[0]] ^= 1
		if err := s.Verify(); !errors.Is(err, transcode.ErrBad) {
			t.Errorf("%v: a damaged patch: %v", mode, err)
		}
	}
}
