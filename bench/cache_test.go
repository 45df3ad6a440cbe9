package bench

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// BenchmarkCachePolicies reads shuffled epochs of a packed store of which 30 % fit
// the cache, and reports what the policies fetch; the control keeps what was read last.
func BenchmarkCachePolicies(b *testing.B) {
	dataset := testmount.Generate(b, "-samples", "25", "-copies", "40", "-width", "960", "-height", "720", "-png-every", "0")
	env := testmount.Home(b)
	store := filepath.Join(b.TempDir(), "store")
	testmount.Command(b, env, "pack", "--originals", "keep", dataset, store)
	bytes := readAll(b, files(b, dataset), 64<<10)
	r := rand.New(rand.NewPCG(1, 1))
	mount := func(b *testing.B, policy string) (epoch pass, fetched func() int64) {
		mnt := testmount.Mount(b, env, store, "--cache", policy, "--no-background", "--direct",
			"--cache-bytes", fmt.Sprintf("%dB", bytes*3/10))
		view := files(b, filepath.Join(mnt, "original"))
		epoch = func() float64 {
			r.Shuffle(len(view), func(i, j int) { view[i], view[j] = view[j], view[i] })
			return seconds(func() { readAll(b, view, 64<<10) })
		}
		epoch()
		daemon := attach(b, mnt)
		return epoch, func() int64 { return counter(b, daemon, "serve", "fetched") }
	}
	for _, policy := range []string{"liquid", "minio"} {
		b.Run(policy, func(b *testing.B) {
			control, _ := mount(b, "daemon")
			epoch, fetched := mount(b, policy)
			before := fetched()
			compare(b, "files", 1000, control, epoch)
			b.ReportMetric(float64(fetched()-before)/float64(b.N)/float64(bytes), "fetched")
		})
	}
}

// counter is one of pipefs stats.
func counter(b *testing.B, m *views.Mount, group, name string) int64 {
	b.Helper()
	stats, err := m.Stats(b.Context())
	testenv.Must(b, err)
	for _, c := range stats.Counters {
		if c.Group == group && c.Name == name {
			return c.Value
		}
	}
	b.Fatalf("there is no counter %s of %s", name, group)
	return 0
}
