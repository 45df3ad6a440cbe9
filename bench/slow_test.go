package bench

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/throttle"
	"github.com/pipefs/pipefs/internal/testmount"
)

// BenchmarkSlowDisk is a first epoch of an unmodified PyTorch loader on scan5/ of a
// store, from a disk of 20 MB/s. The control is the tree of JPEG files on the same
// disk. It needs root.
func BenchmarkSlowDisk(b *testing.B) {
	const samples = 240
	dataset := testmount.Generate(b, "-samples", "240", "-width", "760", "-height", "570", "-png-every", "0")
	env := testmount.Home(b)
	store := filepath.Join(b.TempDir(), "store")
	testmount.Command(b, env, "pack", dataset, store)
	loaderEpoch(b, dataset) // PyTorch itself comes from the disk, too
	disk, err := throttle.Enter(store, throttle.Limits{BytesPerSecond: 20e6})
	if err != nil {
		b.Skip(err)
	}
	defer func() {
		if err := disk.Close(); err != nil {
			b.Error(err)
		}
	}()
	for name, speed := range map[string]int64{"20MBs": 20e6, "10MBs": 10e6} {
		b.Run(name, func(b *testing.B) {
			if err := disk.Set(throttle.Limits{BytesPerSecond: speed}); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = disk.Set(throttle.Limits{}) }()
			cold := func() {
				if err := errors.Join(loader.Forget(dataset), loader.Forget(store)); err != nil {
					b.Fatal(err)
				}
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
