package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/throttle"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// BenchmarkSlowDisk reads a first epoch of scan5/ of a store with an unmodified PyTorch
// loader, from a slow disk. The control is the tree of JPEG files on the same disk. The
// generated pictures have as many bytes as those of ImageNet, but more than twice the
// pixels, so that decoding weighs more. The photographs have as many bytes a pixel as
// ImageNet. It needs root.
func BenchmarkSlowDisk(b *testing.B) {
	b.Run("generated", func(b *testing.B) {
		slowDisk(b, testmount.Generate(b, "-samples", "240", "-width", "760", "-height", "570", "-png-every", "0"), 240)
	})
	b.Run("photographs", func(b *testing.B) {
		files := testenv.Shared(b, "bsds/*.jpg")
		const copies = 6
		dataset := b.TempDir()
		for i := range copies {
			class := filepath.Join(dataset, fmt.Sprintf("class%d", i))
			testenv.Must(b, os.Mkdir(class, 0o755))
			for _, name := range files {
				data, err := os.ReadFile(name)
				if err == nil {
					err = os.WriteFile(filepath.Join(class, filepath.Base(name)), data, 0o644)
				}
				testenv.Must(b, err)
			}
		}
		slowDisk(b, dataset, float64(copies*len(files)))
	})
}

func slowDisk(b *testing.B, dataset string, samples float64) {
	env := testmount.Home(b)
	store := filepath.Join(b.TempDir(), "store")
	testmount.Command(b, env, "pack", dataset, store)
	loaderEpoch(b, dataset) // PyTorch itself comes from the disk, too
	disk, err := throttle.Enter(store, throttle.Limits{})
	if err != nil {
		b.Skip(err)
	}
	defer func() {
		if err := disk.Close(); err != nil {
			b.Error(err)
		}
	}()
	for _, speed := range []int64{20, 10} {
		b.Run(fmt.Sprintf("%dMBs", speed), func(b *testing.B) {
			testenv.Must(b, disk.Set(throttle.Limits{BytesPerSecond: speed * 1e6}))
			defer func() { _ = disk.Set(throttle.Limits{}) }()
			cold := func() {
				testenv.Must(b, errors.Join(loader.Forget(dataset), loader.Forget(store)))
			}
			compare(b, "images", samples,
				func() float64 { cold(); return loaderEpoch(b, dataset) },
				func() float64 {
					mnt, unmount := testmount.MountOnce(b, env, store, "--no-background")
					defer unmount()
					cold()
					return loaderEpoch(b, filepath.Join(mnt, "scan5"))
				})
		})
	}
}
