package bench

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// readRaw reads every file by the system calls that C and Python programs make:
// open, fstat, reads of 64 KiB to the end, close. Go's own also ask whether a
// file can be polled, which costs a mount a tenth.
func readRaw(b *testing.B, names []string) {
	b.Helper()
	readBy(b, names, 64<<10, readers, readRawFile)
}

func readRawFile(name string, buf []byte) (int64, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	for left := st.Size; ; {
		n, err := unix.Read(fd, buf)
		if left -= int64(n); n == 0 || err != nil {
			if err == nil && left != 0 {
				err = fmt.Errorf("%s: %d bytes are missing", name, left)
			}
			return st.Size, err
		}
	}
}

// BenchmarkDaemonCacheHits reads samples that the daemon's cache holds, against the
// plain tree in the page cache, of a dataset and of a packed store. Only a
// privileged daemon hands its memory to the kernel.
func BenchmarkDaemonCacheHits(b *testing.B) {
	dataset := testmount.Generate(b, "-samples", "25", "-copies", "40", "-width", "760", "-height", "570", "-png-every", "0")
	env := testmount.Home(b)
	store := filepath.Join(b.TempDir(), "store")
	testmount.Command(b, env, "pack", "--originals", "keep", dataset, store)
	plain := files(b, dataset)
	evict(b, plain)
	readRaw(b, plain)
	for name, source := range map[string]string{"dataset": dataset, "store": store} {
		for _, policy := range []string{"daemon", "liquid"} {
			b.Run(name+"/"+policy, func(b *testing.B) {
				mnt := testmount.Mount(b, env, source, "--cache", policy, "--no-background", "--cache-bytes", "1GiB")
				view := files(b, filepath.Join(mnt, "original"))
				readRaw(b, view)
				daemon := attach(b, mnt)
				before := cpuOf(b, daemon)
				compare(b, "files", float64(len(view)),
					func() float64 { return seconds(func() { readRaw(b, plain) }) },
					func() float64 { return seconds(func() { readRaw(b, view) }) })
				b.ReportMetric(1e6*(cpuOf(b, daemon)-before)/float64(b.N*len(view)), "daemon-µs/file")
			})
		}
	}
}

// BenchmarkDaemonCacheRaw does the same for pixels, which such a cache is made for:
// pictures of 500×375 in ppm/, against the same files on disk.
func BenchmarkDaemonCacheRaw(b *testing.B) {
	dataset := testmount.Generate(b, "-samples", "25", "-copies", "16", "-width", "500", "-height", "375", "-png-every", "0")
	env := testmount.Home(b)
	store, tree := filepath.Join(b.TempDir(), "store"), filepath.Join(b.TempDir(), "tree")
	testmount.Command(b, env, "pack", "--originals", "keep", dataset, store)
	testmount.Command(b, env, "materialize", store, "ppm")
	testmount.Command(b, env, "export", store, "ppm", tree)
	plain := files(b, tree)
	evict(b, plain)
	readRaw(b, plain)
	mnt := testmount.Mount(b, env, store, "--cache", "liquid", "--no-background", "--cache-bytes", "1GiB")
	view := files(b, filepath.Join(mnt, "ppm"))
	readRaw(b, view)
	compare(b, "files", float64(len(view)),
		func() float64 { return seconds(func() { readRaw(b, plain) }) },
		func() float64 { return seconds(func() { readRaw(b, view) }) })
}

// BenchmarkCachePolicies reads shuffled epochs of a packed store of which 30 % fit
// the cache, and reports what the policies fetch; the control is lru.
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
			return seconds(func() { readRaw(b, view) })
		}
		epoch()
		daemon := attach(b, mnt)
		return epoch, func() int64 { return counter(b, daemon, "serve", "fetched") }
	}
	for _, policy := range []string{"liquid", "minio"} {
		b.Run(policy, func(b *testing.B) {
			control, _ := mount(b, "lru")
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
