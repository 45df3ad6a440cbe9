package codecs

import (
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

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
