package codecs

import (
	"bytes"
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/pnm"
)

// TestScaledInto wants the files into which a step writes its pixels itself to be those
// that the steps make one after the other. Of PNM files it takes them from where they lie.
func TestScaledInto(t *testing.T) {
	r := Default(transcode.Limits{})
	samples := [][]byte{}
	for _, m := range []transcode.Mode{transcode.ModeL, transcode.ModeLA, transcode.ModeP, transcode.ModeRGB, transcode.ModeRGBA} {
		px := pillow.Sample(m, 123, 77)
		src, err := png.Encode(t.Context(), px)
		testenv.Must(t, err)
		samples = append(samples, src)
		if m == transcode.ModeL || m == transcode.ModeRGB {
			src, err := pnm.Encode(px)
			testenv.Must(t, err)
			samples = append(samples, src)
		}
	}
	for _, src := range samples {
		before := bytes.Clone(src)
		info, err := r.ProbeBytes(src)
		testenv.Must(t, err)
		for _, spec := range []string{
			"rrc32-npy", "rrc32-hflip-npy", "rrc32cubic-hflip-ppm", "rrc32-hflip-bmp", "rrc32-hflip-chw-npy", "rrc32-hflip-grey-npy",
			"resize50-npy", "resize50-ppm", "resize50-bmp", "resize50-hflip-npy", "resize77-npy", "hflip-npy", "pad3-rrc32-hflip-npy",
			"rrc32-hflip-trivialaugment-npy", "rrc32-randaug3_20-erase90-ppm", "rrc32-autoaugment-bmp", "rrc32-hflip-colorjitter40_40_40_10-chw-npy",
			"rrc32-colorjitter40_40_20_10p80-randgrey50-blur9p50-hflip-solarize128p50-npy", "trivialaugment-npy",
		} {
			v, err := r.ParseRandom(spec)
			testenv.Must(t, err)
			for epoch := range uint64(4) {
				plan := r.Plan(v, info, transcode.Image).Drawn(transcode.Draw{Epoch: epoch, Path: spec})
				got, err := plan.Run(t.Context(), src)
				testenv.Must(t, err)
				at := transcode.Payload{Shape: transcode.Shape{Info: info, Stage: transcode.Source}, Bytes: src}
				for _, s := range plan.Steps() {
					out, err := s.Kind.Apply(t.Context(), at, transcode.Call{Step: s.Step, Nearest: s.Nearest, Choice: s.Choice})
					testenv.Must(t, err)
					out.Shape = s.Out
					at = out
				}
				if !bytes.Equal(got, at.Bytes) {
					t.Errorf("%s of %v %v, epoch %d: other bytes", spec, info.Format, info.Mode, epoch)
				}
			}
		}
		if !bytes.Equal(src, before) {
			t.Errorf("%v %v: the sample has changed", info.Format, info.Mode)
		}
	}
}

// BenchmarkRecipes makes draws of photographs, from their files and from decoded pixels.
// python/tests/bench_recipes.py compares with torchvision.
func BenchmarkRecipes(b *testing.B) {
	r := Default(transcode.Limits{})
	whole, err := r.Parse("ppm")
	testenv.Must(b, err)
	var files, pixels [][]byte
	for _, path := range testenv.Shared(b, "imagenet/*.JPEG")[:32] {
		src, err := os.ReadFile(path)
		testenv.Must(b, err)
		info, err := r.ProbeBytes(src)
		testenv.Must(b, err)
		made, err := r.Plan(whole, info, transcode.Auto).Run(b.Context(), src)
		testenv.Must(b, err)
		files, pixels = append(files, src), append(pixels, made)
	}
	for _, spec := range []string{
		"rrc224-hflip-npy", "rrc224-hflip-trivialaugment-npy", "rrc224-hflip-randaug2_9-npy", "rrc224-hflip-autoaugment-npy",
		"rrc224-hflip-colorjitter40_40_40_10-npy", "rrc224-hflip-colorjitter80_80_80_20p80-randgrey20-blur23p50-npy",
	} {
		v, err := r.ParseRandom(spec)
		testenv.Must(b, err)
		for kind, sources := range map[string][][]byte{"jpeg": files, "pixels": pixels} {
			b.Run(spec+"/"+kind, func(b *testing.B) {
				out := make([]byte, 1<<20)
				cpu := testenv.CPU(b)
				for i := range b.N {
					src := sources[i%len(sources)]
					info, err := r.ProbeBytes(src)
					testenv.Must(b, err)
					plan := r.Plan(v, info, transcode.Auto).Drawn(transcode.Draw{Epoch: uint64(i), Path: "a"})
					_, err = plan.RunAfter(b.Context(), 0, src, func(n int64) []byte { return out[:n] })
					testenv.Must(b, err)
				}
				cpu()
			})
		}
	}
}
