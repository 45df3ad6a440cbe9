package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// BenchmarkKeptJPEG reads JPEG files that the page cache holds, by two readers
// in blocks of 64 KiB: the plain tree against original/ of a mount. The plain
// tree was read from the disk, or is as it was when it was written.
func BenchmarkKeptJPEG(b *testing.B) {
	dataset := testmount.Generate(b, "-samples", "25", "-copies", "40", "-width", "760", "-height", "570", "-png-every", "0")
	env := testmount.Home(b)
	plain := files(b, dataset)
	for _, mode := range []string{"page", "daemon"} {
		for _, warm := range []string{"written", "read"} {
			b.Run(mode+"/"+warm, func(b *testing.B) {
				mnt := testmount.Mount(b, env, dataset, "--cache", mode, "--no-background", "--cache-bytes", "1GiB")
				view := files(b, filepath.Join(mnt, "original"))
				if warm == "read" {
					evict(b, plain)
				}
				bytes := readAll(b, plain, 64<<10)
				readAll(b, view, 64<<10)
				daemon := attach(b, mnt)
				before := cpuOf(b, daemon)
				compare(b, "files", float64(len(view)),
					func() float64 { return seconds(func() { readAll(b, plain, 64<<10) }) },
					func() float64 { return seconds(func() { readAll(b, view, 64<<10) }) })
				b.ReportMetric(1e6*(cpuOf(b, daemon)-before)/float64(b.N*len(view)), "daemon-µs/file")
				b.ReportMetric(float64(bytes)/float64(len(plain)), "bytes/file")
			})
		}
	}
}

// BenchmarkFirstPassJPEG reads JPEG files through a mount that has cached
// nothing; the page cache holds the plain tree, which is the control.
func BenchmarkFirstPassJPEG(b *testing.B) {
	dataset := testmount.Generate(b, "-samples", "25", "-copies", "40", "-width", "760", "-height", "570", "-png-every", "0")
	env := testmount.Home(b)
	plain := files(b, dataset)
	evict(b, plain)
	readAll(b, plain, 64<<10)
	var cpu float64
	compare(b, "files", float64(len(plain)),
		func() float64 { return seconds(func() { readAll(b, plain, 64<<10) }) },
		func() float64 {
			took, used := firstPass(b, env, dataset, "original", 64<<10)
			cpu += used
			return took
		})
	b.ReportMetric(1e6*cpu/float64(b.N*len(plain)), "daemon-µs/file")
}

// firstPass mounts, reads all of a view once, and returns the seconds that it
// took and those that the daemon worked.
func firstPass(b *testing.B, env []string, what, view string, block int) (took, cpu float64) {
	b.Helper()
	mnt, unmount := testmount.MountOnce(b, env, what, "--no-background")
	defer unmount()
	names := files(b, filepath.Join(mnt, view))
	daemon := attach(b, mnt)
	before := cpuOf(b, daemon)
	took = seconds(func() { readAll(b, names, block) })
	return took, cpuOf(b, daemon) - before
}

// BenchmarkFirstPassScan5 reads scan5/ from a packed store through a mount that has
// cached nothing. The control is original/ of a dataset that holds the same files, or of
// a store that keeps them. What counts is the CPU time of both client and daemon.
func BenchmarkFirstPassScan5(b *testing.B) {
	dataset := testmount.Generate(b, "-samples", "25", "-copies", "160", "-width", "760", "-height", "570", "-png-every", "0")
	env := testmount.Home(b)
	store, same := filepath.Join(b.TempDir(), "store"), filepath.Join(b.TempDir(), "same")
	testmount.Command(b, env, "pack", dataset, store)
	testmount.Command(b, env, "export", store, "scan5", same)
	cpu := func(what, view string) pass {
		return func() float64 {
			before := loader.OwnCPU()
			_, daemon := firstPass(b, env, what, view, 64<<10)
			return loader.OwnCPU() - before + daemon
		}
	}
	plain := files(b, same)
	readAll(b, plain, 64<<10)
	kept := filepath.Join(b.TempDir(), "kept")
	testmount.Command(b, env, "pack", "--originals", "keep", same, kept)
	for name, control := range map[string]string{"dataset": same, "store": kept} {
		b.Run(name, func(b *testing.B) {
			compare(b, "files/CPU", float64(len(plain)), cpu(control, "original"), cpu(store, "scan5"))
		})
	}
}

// BenchmarkFirstPassFromL3 reads views of pixels through a mount that has cached
// nothing, from a store that holds the pictures as L3. The control is a store of
// the PNG files.
func BenchmarkFirstPassFromL3(b *testing.B) {
	dataset := testmount.Generate(b, "-samples", "48", "-width", "768", "-height", "512", "-png-every", "1")
	env := testmount.Home(b)
	png := filepath.Join(b.TempDir(), "png")
	testmount.Command(b, env, "pack", dataset, png)
	for _, mode := range []string{"dense", "fast"} {
		l3 := filepath.Join(b.TempDir(), mode)
		testmount.Command(b, env, "pack", "--represent", "l3", "--originals", "drop", "--l3-mode", mode, dataset, l3)
		for _, view := range []string{"bmp", "npy", "ppm"} {
			b.Run(mode+"/"+view, func(b *testing.B) {
				took := func(store string) pass {
					return func() float64 {
						took, _ := firstPass(b, env, store, view, 1<<20)
						return took
					}
				}
				compare(b, "files", 48, took(png), took(l3))
			})
		}
	}
}

// BenchmarkFirstPassPackedBMP reads BMP files of 600 KB from a packed store that
// the page cache holds, through a mount that has cached nothing: every byte is
// verified. The control is the plain tree, which the page cache holds.
func BenchmarkFirstPassPackedBMP(b *testing.B) {
	const count, width, height = 600, 516, 387
	dataset := filepath.Join(b.TempDir(), "dataset")
	testenv.Must(b, os.MkdirAll(filepath.Join(dataset, "class"), 0o755))
	image := bmp(width, height)
	for i := range count {
		image[len(image)-1], image[len(image)-2] = byte(i), byte(i>>8)
		testenv.Must(b, os.WriteFile(filepath.Join(dataset, "class", fmt.Sprintf("%04d.bmp", i)), image, 0o644))
	}
	env := testmount.Home(b)
	store := filepath.Join(b.TempDir(), "store")
	testmount.Command(b, env, "pack", dataset, store)
	plain := files(b, dataset)
	for _, block := range []int{64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("block=%dK", block>>10), func(b *testing.B) {
			var cpu float64
			compare(b, "MB", float64(count*len(image))/1e6,
				func() float64 { return seconds(func() { readAll(b, plain, block) }) },
				func() float64 {
					took, used := firstPass(b, env, store, "original", block)
					cpu += used
					return took
				})
			b.ReportMetric(1e6*cpu/float64(b.N*count), "daemon-µs/file")
		})
	}
}

// bmp is an empty 24-bit BMP file.
func bmp(width, height int) []byte {
	row := (3*width + 3) &^ 3
	b := make([]byte, 54+row*height)
	copy(b, "BM")
	for offset, v := range map[int]int{2: len(b), 10: 54, 14: 40, 18: width, 22: height, 34: row * height} {
		binary.LittleEndian.PutUint32(b[offset:], uint32(v))
	}
	b[26], b[28] = 1, 24
	return b
}

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
	disk, err := cgroup.Enter(store, cgroup.Limits{})
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
			testenv.Must(b, disk.Set(cgroup.Limits{BytesPerSecond: speed * 1e6}))
			defer func() { _ = disk.Set(cgroup.Limits{}) }()
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
