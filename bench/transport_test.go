package bench

import (
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// BenchmarkTransport compares the transports: /dev/fuse is the control. Passes of both take
// turns, so that what else the machine does meets both.
func BenchmarkTransport(b *testing.B) {
	if !testenv.HasRings() {
		b.Skip("it takes root, and a kernel with FUSE over io_uring (Linux 6.14)")
	}
	env := testmount.Home(b)
	for _, c := range []struct {
		name          string
		width, height string
		copies        string // of 25 pictures
		view          string
		block         int
		threads       int // that read
		passes        int
		pixels        bool // the pixels of all pictures are materialized
		options       []string
	}{
		{"first/110kB/1", "760", "570", "160", "original", 64 << 10, 1, 1, false, nil},
		{"first/110kB/2", "760", "570", "160", "original", 64 << 10, 2, 1, false, nil},
		{"first/110kB/8", "760", "570", "160", "original", 64 << 10, 8, 1, false, nil},
		{"first/600kB/2", "1900", "1425", "40", "original", 1 << 20, 2, 1, false, nil},
		{"kept/2", "760", "570", "160", "original", 64 << 10, 2, 2, false, []string{"--cache", "daemon", "--cache-bytes", "2GiB"}},
		{"random-npy/2", "760", "570", "40", "rrc224-npy", 1 << 20, 2, 1, false, nil},
		{"random-npy-pixels/2", "760", "570", "40", "rrc224-npy", 1 << 20, 2, 1, true, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			dataset := testmount.Generate(b, "-samples", "25", "-copies", c.copies, "-width", c.width, "-height", c.height, "-png-every", "0")
			if c.pixels {
				store := filepath.Join(b.TempDir(), "store")
				testmount.Command(b, env, "pack", dataset, store)
				testmount.Command(b, env, "materialize", store, "ppm")
				dataset = store
			}
			var samples int
			// Seconds of the last pass, and CPU time of the daemon for it.
			run := func(transport string) (took, cpu float64) {
				options := append([]string{"--no-background", "--transport", transport}, c.options...)
				var mnt string
				var unmount func()
				testenv.WithRings(b, func() { mnt, unmount = testmount.MountOnce(b, env, dataset, options...) })
				defer unmount()
				names := files(b, filepath.Join(mnt, c.view))
				samples = len(names)
				daemon := attach(b, mnt)
				for range c.passes {
					before := cpuOf(b, daemon)
					took = seconds(func() { readBy(b, names, c.block, c.threads, readFile) })
					cpu = cpuOf(b, daemon) - before
				}
				return took, cpu
			}
			run("fuse") // makes the page cache hold the dataset
			var cpu [2]float64
			compare(b, "files", float64(samples),
				func() float64 { took, used := run("fuse"); cpu[0] += used; return took },
				func() float64 { took, used := run("uring"); cpu[1] += used; return took })
			b.ReportMetric(1e6*cpu[0]/float64(b.N*samples), "daemon-µs/file-control")
			b.ReportMetric(1e6*cpu[1]/float64(b.N*samples), "daemon-µs/file")
		})
	}
}
