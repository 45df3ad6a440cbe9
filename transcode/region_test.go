package transcode_test

import (
	"bytes"
	"context"
	goimage "image"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/raster"
)

// asked is a decoder of PNG that takes note of what is asked of it.
type asked struct {
	png.Decoder
	decoded *[]goimage.Rectangle // empty: all
}

func (a asked) Decode(ctx context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	*a.decoded = append(*a.decoded, goimage.Rectangle{})
	return a.Decoder.Decode(ctx, src, lim)
}

func (a asked) DecodeRegion(ctx context.Context, src []byte, lim transcode.Limits, info transcode.Info, r goimage.Rectangle) (*transcode.Pixels, error) {
	*a.decoded = append(*a.decoded, r)
	return a.Decoder.DecodeRegion(ctx, src, lim, info, r)
}

func (a asked) Fill(ctx context.Context, src []byte, lim transcode.Limits, info transcode.Info, r goimage.Rectangle, dst []byte, at transcode.Layout) error {
	*a.decoded = append(*a.decoded, r)
	return a.Decoder.Fill(ctx, src, lim, info, r, dst, at)
}

// whole is a decoder that cannot decode regions.
type whole struct{ transcode.Decoder }

// registries are one that takes note of what is decoded, and one that decodes all.
func registries(decoded *[]goimage.Rectangle) (parts, all *transcode.Registry) {
	kinds := func() []*transcode.Kind {
		return []*transcode.Kind{
			raster.UprightKind(), raster.Crop(), raster.RandomResizedCrop(), raster.RandomCrop(), raster.Pad(), raster.HFlip(),
			raster.Grey(), raster.Float32(), raster.CHW(), bmp.Kind(), raster.NPY(), png.Kind(),
		}
	}
	parts = transcode.NewRegistry(transcode.Limits{}, []transcode.Decoder{asked{png.Decoder{}, decoded}}, kinds())
	return parts, transcode.NewRegistry(transcode.Limits{}, []transcode.Decoder{whole{png.Decoder{}}}, kinds())
}

// drawn is the plan of a view for a sample, in one epoch.
func drawn(t testing.TB, r *transcode.Registry, view string, src []byte, epoch uint64) transcode.Plan {
	t.Helper()
	v, err := r.ParseRandom(view)
	testenv.Must(t, err)
	info, err := r.ProbeBytes(src)
	testenv.Must(t, err)
	return r.Plan(v, info, image).Drawn(transcode.Draw{Epoch: epoch})
}

func ran(t testing.TB, p transcode.Plan, src []byte) []byte {
	t.Helper()
	out, err := p.Run(t.Context(), src)
	if err != nil {
		t.Fatal(p.Key(), err)
	}
	return out
}

// TestPlanRegions: a plan asks for the pixels that its first step on pixels takes, and for no
// others, and makes what it makes where the decoder decodes all.
func TestPlanRegions(t *testing.T) {
	var decoded []goimage.Rectangle
	parts, all := registries(&decoded)
	px := pillow.Sample(transcode.ModeRGB, 64, 48)
	straight, err := png.Encode(t.Context(), px)
	testenv.Must(t, err)
	px.Meta = transcode.Metadata{EXIF: []byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"), Orientation: 6}
	turned, err := png.Encode(t.Context(), px)
	testenv.Must(t, err)
	everything := goimage.Rect(0, 0, 64, 48)
	for _, c := range []struct {
		view string
		src  []byte
		want goimage.Rectangle
	}{
		{"bmp", straight, everything},
		{"crop24-bmp", straight, goimage.Rect(20, 12, 44, 36)},
		{"crop24-npy", straight, goimage.Rect(20, 12, 44, 36)},
		{"crop24-chw-npy", straight, goimage.Rect(20, 12, 44, 36)},
		{"crop24-png", turned, goimage.Rect(20, 12, 44, 36)},
		{"crop24-grey-float32-npy", straight, goimage.Rect(20, 12, 44, 36)},
		{"crop50-bmp", straight, goimage.Rect(7, 0, 57, 48)},
		{"crop64-bmp", straight, goimage.Rectangle{}},
		{"crop100-bmp", straight, goimage.Rectangle{}},
		{"upright-crop24-bmp", straight, goimage.Rect(20, 12, 44, 36)},
		{"upright-crop24-bmp", turned, goimage.Rectangle{}},
		{"grey-crop24-npy", straight, goimage.Rectangle{}},
		{"hflip-crop24-npy", straight, goimage.Rectangle{}},
	} {
		decoded = nil
		if !bytes.Equal(ran(t, drawn(t, parts, c.view, c.src, 0), c.src), ran(t, drawn(t, all, c.view, c.src, 0), c.src)) {
			t.Errorf("%s: other bytes than from all pixels", c.view)
		}
		if diff := cmp.Diff([]goimage.Rectangle{c.want}, decoded); diff != "" {
			t.Errorf("%s (-want +asked for):\n%s", c.view, diff)
		}
	}
}

// TestDrawnRegions: the box that is drawn is what is decoded.
func TestDrawnRegions(t *testing.T) {
	var decoded []goimage.Rectangle
	parts, all := registries(&decoded)
	for _, mode := range []transcode.Mode{transcode.ModeRGB, transcode.ModeP, transcode.ModeRGBA} {
		src, err := png.Encode(t.Context(), pillow.Sample(mode, 64, 48))
		testenv.Must(t, err)
		everything := goimage.Rect(0, 0, 64, 48)
		for _, view := range []string{"rrc16-hflip-npy", "rrc40scale80to100-npy", "rrc24-chw-npy", "randcrop24-bmp", "randcrop24-hflip-chw-npy", "randcrop55-npy", "randcrop100-npy"} {
			for epoch := range uint64(20) {
				plan := drawn(t, parts, view, src, epoch)
				decoded = nil
				if !bytes.Equal(ran(t, plan, src), ran(t, drawn(t, all, view, src, epoch), src)) {
					t.Fatalf("%v, %s: other bytes than from all pixels", mode, plan.Key())
				}
				box := plan.Steps()[1].Choice
				want := goimage.Rect(box.X, box.Y, box.X+box.Width, box.Y+box.Height).Intersect(everything)
				if want == everything {
					want = goimage.Rectangle{}
				}
				if diff := cmp.Diff([]goimage.Rectangle{want}, decoded); diff != "" {
					t.Errorf("%v, %s (-want +asked for):\n%s", mode, plan.Key(), diff)
				}
			}
		}
	}
}
