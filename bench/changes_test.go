package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// BenchmarkLaterEpoch measures what noticing changes costs: later epochs of original/ by
// PyTorch, 2 workers, against the same mount with --immutable. A dataset on the disk is
// watched. A dataset in another mount is checked at each open.
func BenchmarkLaterEpoch(b *testing.B) {
	const images = 1000
	dataset := testmount.Generate(b, "-samples", "100", "-copies", "10", "-png-every", "0")
	env := testmount.Home(b)
	far := filepath.Join(testmount.Mount(b, env, dataset, "--no-background", "--immutable"), "original")
	for _, c := range []struct{ name, dataset string }{{"watched", dataset}, {"checked", far}} {
		b.Run(c.name, func(b *testing.B) {
			epoch := func(args ...string) pass {
				dir := filepath.Join(testmount.Mount(b, env, c.dataset, append(args, "--no-background")...), "original")
				loaderEpoch(b, dir)
				return func() float64 { return loaderEpoch(b, dir) }
			}
			compare(b, "images", images, epoch("--immutable"), epoch())
		})
	}
}

// BenchmarkNotice measures how long a file that was replaced in a watched dataset still
// shows its old content to a reader that opens it: one file, which is read again and
// again meanwhile, and each of a thousand files that are replaced at once.
func BenchmarkNotice(b *testing.B) {
	const files = 1000
	dataset := b.TempDir()
	content := func(version int) []byte { return fmt.Append(nil, "version ", version) }
	replace := func(i, version int) {
		name := filepath.Join(dataset, fmt.Sprintf("%d.jpg", i))
		testenv.Must(b, os.WriteFile(name+".tmp", content(version), 0o644))
		testenv.Must(b, os.Rename(name+".tmp", name))
	}
	for i := range files {
		replace(i, 0)
	}
	original := filepath.Join(testmount.Mount(b, testmount.Home(b), dataset, "--no-background"), "original")
	until := func(i, version int) {
		for {
			// ESTALE: opened before the kernel was told, and read after
			got, _ := os.ReadFile(filepath.Join(original, fmt.Sprintf("%d.jpg", i)))
			if bytes.Equal(got, content(version)) {
				return
			}
		}
	}
	version := 0
	for _, n := range []int{1, files} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			for i := range n {
				replace(i, version)
			}
			for i := range n {
				until(i, version)
			}
			var took []float64
			for b.Loop() {
				version++
				for i := range n {
					replace(i, version)
				}
				start := time.Now()
				for i := range n {
					until(i, version)
				}
				took = append(took, time.Since(start).Seconds())
			}
			b.ReportMetric(1000*stats.Median(took), "ms-median")
			b.ReportMetric(0, "ns/op")
		})
	}
}
