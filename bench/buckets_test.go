package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store/blob"
)

// faraway is an object storage at a distance, with photographs in it.
type faraway struct {
	b       *testing.B
	server  *testenv.S3Server
	far     testenv.S3Server // it, through the proxy
	proxy   *testenv.Proxy
	env     []string
	dataset string   // on the local disk
	names   []string // of the objects, below dataset/
	bytes   int64
}

// distance is what lies between a machine and a storage in the same region.
const distance = 20 * time.Millisecond

// newFaraway puts the photographs into a bucket, each so many times, in ten classes.
func newFaraway(b *testing.B, copies int, bandwidth int64) *faraway {
	b.Helper()
	photographs := testenv.Shared(b, "imagenet/*.JPEG")
	f := &faraway{b: b, server: testenv.S3(b), dataset: filepath.Join(b.TempDir(), "dataset")}
	at := f.place(f.server, "dataset")
	for c := range copies {
		for i, from := range photographs {
			data, err := os.ReadFile(from)
			testenv.Must(b, err)
			name := filepath.Join(fmt.Sprintf("class%d", i%10), fmt.Sprintf("%d-%s", c, filepath.Base(from)))
			to := filepath.Join(f.dataset, name)
			testenv.Must(b, os.MkdirAll(filepath.Dir(to), 0o755))
			testenv.Must(b, os.WriteFile(to, data, 0o644))
			_, err = at.PutIfAbsent(b.Context(), name, bytes.NewReader(data), int64(len(data)))
			testenv.Must(b, err)
			f.names, f.bytes = append(f.names, name), f.bytes+int64(len(data))
		}
	}
	f.proxy = testenv.Distance(b, f.server.Endpoint, testenv.Way{Latency: distance, Bandwidth: bandwidth})
	f.far = *f.server
	f.far.Endpoint = f.proxy.Endpoint
	f.env = f.far.Env()
	return f
}

// place opens a place of the bucket.
func (f *faraway) place(s *testenv.S3Server, name string) blob.Objects {
	f.b.Helper()
	for _, e := range s.Env() {
		name, value, _ := strings.Cut(e, "=")
		f.b.Setenv(name, value)
	}
	at, err := blob.Open(f.b.Context(), f.url(name), blob.Options{})
	testenv.Must(f.b, err)
	return at
}

func (f *faraway) url(name string) string { return "s3://" + f.server.Bucket + "/" + name }

// mount mounts a place of the bucket. What is cached on the disk lies in cache; "" is a new directory.
func (f *faraway) mount(cache, what string, options ...string) (mnt string, unmount func()) {
	env := append(testmount.Home(f.b), f.env...)
	if cache != "" {
		env = append(env, "XDG_CACHE_HOME="+cache)
	}
	return testmount.MountOnce(f.b, env, f.url(what), append(options, "--no-background")...)
}

// epoch is one epoch of an ImageFolder in a process of its own; see testdata/epoch.py.
func (f *faraway) epoch(root, hints, what string, workers int) (samples int, bytes int64, seconds float64) {
	f.b.Helper()
	python, err := filepath.Abs("../python")
	testenv.Must(f.b, err)
	cmd := exec.Command("/usr/bin/python3", "testdata/epoch.py", root, hints, what, fmt.Sprint(workers))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+python)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	testenv.Must(f.b, err)
	if _, err := fmt.Sscan(string(out), &samples, &bytes, &seconds); err != nil {
		f.b.Fatalf("%q: %v", out, err)
	}
	return samples, bytes, seconds
}

// client reads all objects, in shuffled order, as fast as many requests at once do: what a file
// system cannot beat.
func (f *faraway) client(most int) float64 {
	f.b.Helper()
	at, ctx := f.place(&f.far, "dataset"), f.b.Context()
	infos := map[string]blob.Info{}
	for page, err := range at.List(ctx, "", true) {
		testenv.Must(f.b, err)
		for _, i := range page {
			infos[i.Name] = i
		}
	}
	order := rand.New(rand.NewPCG(7, 0)).Perm(len(f.names))
	return seconds(func() {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(most)
		for _, k := range order {
			g.Go(func() error { return readObject(ctx, at, infos[f.names[k]]) })
		}
		testenv.Must(f.b, g.Wait())
	})
}

func readObject(ctx context.Context, at blob.Objects, i blob.Info) error {
	return at.ReadAt(ctx, i.Name, i.Version, make([]byte, i.Size), 0)
}

// peer mounts the bucket by another program, if that is installed.
func (f *faraway) peer(command string, args ...string) (string, func()) {
	mnt := f.b.TempDir()
	cmd := exec.Command(command, args...)
	for i, a := range cmd.Args {
		cmd.Args[i] = strings.ReplaceAll(a, "MNT", mnt)
	}
	// A bundle of certificates is for HTTPS, and rclone 1.60 ends where one is named. An empty token is
	// none, but s3fs takes it for one.
	cmd.Env = slices.DeleteFunc(append(os.Environ(), f.env...), func(e string) bool {
		return strings.HasPrefix(e, "AWS_CA_BUNDLE=") || strings.HasPrefix(e, "AWS_SESSION_TOKEN=")
	})
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testenv.Must(f.b, cmd.Start())
	testenv.EventuallyIs(f.b, command+" has mounted", func() bool {
		_, err := os.Stat(filepath.Join(mnt, "dataset", f.names[0]))
		return err == nil
	})
	return filepath.Join(mnt, "dataset"), func() {
		testenv.Must(f.b, unix.Unmount(mnt, unix.MNT_DETACH))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// rclone has the options that its manual has for reading: no times, no chunks that are larger than files.
func (f *faraway) rclone() (string, func()) {
	return f.peer("rclone", "mount", "--read-only", "--no-modtime", "--no-checksum", "--dir-cache-time=1h", "--attr-timeout=1h", "--vfs-cache-mode=off",
		"--vfs-read-chunk-size=1M", "--buffer-size=256k", "--s3-provider=Other", "--s3-env-auth", "--s3-endpoint="+f.proxy.Endpoint, ":s3:"+f.server.Bucket, "MNT")
}

// s3fs keeps what it knows of names for an hour, and makes as many requests at once as pipefs does at first.
func (f *faraway) s3fs() (string, func()) {
	return f.peer("s3fs", f.server.Bucket, "MNT", "-f", "-o", "ro", "-o", "url="+f.proxy.Endpoint, "-o", "use_path_request_style", "-o", "endpoint="+f.server.Region,
		"-o", "stat_cache_expire=3600", "-o", "enable_noobj_cache", "-o", "multireq_max=16", "-o", "parallel_count=16")
}

// mountpoint has names that do not change.
func (f *faraway) mountpoint() (string, func()) {
	return f.peer("mount-s3-lib", f.server.Bucket, "MNT")
}

// columns are rates and ratios of several sides of a comparison that take turns.
type columns struct {
	names []string
	times map[string][]float64
}

func (c *columns) add(name string, seconds float64) {
	if c.times == nil {
		c.times = map[string][]float64{}
	}
	if c.times[name] == nil {
		c.names = append(c.names, name)
	}
	c.times[name] = append(c.times[name], seconds)
}

// report tells the median rate of each side, for so many units of work.
func (c *columns) report(b *testing.B, unit string, amount float64) {
	for _, name := range c.names {
		b.ReportMetric(amount/views.Median(c.times[name]), unit+"/s-"+name)
	}
}

// BenchmarkBucketReads reads the photographs of a bucket in shuffled order, by two workers of a
// DataLoader that decode nothing, through 100 MB/s.
func BenchmarkBucketReads(b *testing.B) {
	f := newFaraway(b, 2, 100e6)
	var c columns
	requests := func(name string, work func() float64) {
		before := f.proxy.Requests.Load()
		c.add(name, work())
		b.ReportMetric(float64(f.proxy.Requests.Load()-before)/float64(len(f.names)), "requests/file-"+name)
	}
	read := func(root, hints string) float64 {
		n, bytes, took := f.epoch(root, hints, "bytes", 2)
		if n != len(f.names) || bytes != f.bytes {
			b.Fatalf("%d files of %d bytes, want %d of %d", n, bytes, len(f.names), f.bytes)
		}
		return took
	}
	for b.Loop() {
		requests("client", func() float64 { return f.client(64) })
		mnt, unmount := f.mount("", "dataset")
		requests("hints", func() float64 { return read(filepath.Join(mnt, "original"), "hints") })
		unmount()
	}
	c.report(b, "files", float64(len(f.names)))
}

// BenchmarkBucketPlain reads 200 of the photographs in shuffled order, by two threads and by sixteen that
// announce nothing, through 100 MB/s: by pipefs and by the programs that are installed.
func BenchmarkBucketPlain(b *testing.B) {
	f := newFaraway(b, 1, 100e6)
	order := rand.New(rand.NewPCG(7, 0)).Perm(len(f.names))[:200]
	for _, threads := range []int{2, 16} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			f.b = b
			var c columns
			for b.Loop() {
				for _, side := range f.sides() {
					root, unmount := side.mount()
					paths := make([]string, len(order))
					for i, k := range order {
						paths[i] = filepath.Join(root, f.names[k])
					}
					_ = files(b, root) // names and sizes are known
					before := f.proxy.Requests.Load()
					c.add(side.name, seconds(func() { readBy(b, paths, 128<<10, threads) }))
					b.ReportMetric(float64(f.proxy.Requests.Load()-before)/float64(len(order)), "requests/file-"+side.name)
					unmount()
				}
			}
			c.report(b, "files", float64(len(order)))
		})
	}
}

// side is a program that mounts the bucket's dataset.
type side struct {
	name  string
	mount func() (root string, unmount func())
}

// sides are pipefs and the other programs that are installed: make bench-s3 installs rclone and s3fs, and
// testdata/mountpoint says how to build the third.
func (f *faraway) sides() (installed []side) {
	for _, s := range []side{
		{"pipefs", func() (string, func()) {
			mnt, unmount := f.mount("", "dataset")
			return filepath.Join(mnt, "original"), unmount
		}},
		{"rclone", f.rclone},
		{"s3fs", f.s3fs},
		{"mount-s3-lib", f.mountpoint},
	} {
		if _, err := exec.LookPath(s.name); err != nil && s.name != "pipefs" {
			f.b.Log(s.name, "is not installed")
			continue
		}
		installed = append(installed, s)
	}
	return installed
}

// BenchmarkBucketSlow is a first epoch of an ImageFolder that decodes, with hints, through 10 MB/s: of a
// dataset, and of five scans of a store, with and without a cache on the disk.
func BenchmarkBucketSlow(b *testing.B) {
	f := newFaraway(b, 2, 10e6)
	f.pack("store")
	var c columns
	var moved []float64 // share of the bandwidth, of original/
	for b.Loop() {
		for _, side := range []struct {
			name, what, view string
			options          []string
		}{
			{"original", "dataset", "original", nil},
			{"scan5", "store", "scan5", nil},
			{"scan5-uncached", "store", "scan5", []string{"--disk-cache-size", "0"}},
		} {
			mnt, unmount := f.mount("", side.what, side.options...)
			shown := int64(0)
			for _, name := range files(b, filepath.Join(mnt, side.view)) {
				info, err := os.Stat(name)
				testenv.Must(b, err)
				shown += info.Size()
			}
			before := f.proxy.Bytes.Load()
			_, _, took := f.epoch(filepath.Join(mnt, side.view), "hints", "decode", 2)
			bytes := float64(f.proxy.Bytes.Load() - before)
			if c.add(side.name, took); side.name == "original" {
				moved = append(moved, bytes/10e6/took)
			}
			b.ReportMetric(bytes/float64(shown), "bytes/byte-"+side.name)
			unmount()
		}
	}
	c.report(b, "images", float64(len(f.names)))
	b.ReportMetric(views.Median(moved), "bandwidth-original")
}

// pack packs the dataset into the bucket.
func (f *faraway) pack(to string, options ...string) {
	testmount.Command(f.b, append(testmount.Home(f.b), f.env...), append([]string{"pack", f.dataset, f.url(to)}, options...)...)
}

// BenchmarkBucketAgain reads a store a second time, after a remount, from the cache on the disk. The control is
// the same store on the local disk.
func BenchmarkBucketAgain(b *testing.B) {
	f := newFaraway(b, 4, 0)
	f.pack("store")
	env := testmount.Home(b)
	local := filepath.Join(b.TempDir(), "store")
	testmount.Command(b, env, "pack", f.dataset, local)
	cache := b.TempDir()
	read := func(mnt string) float64 {
		names := files(b, filepath.Join(mnt, "scan10"))
		return seconds(func() { readAll(b, names, 64<<10) })
	}
	mnt, unmount := f.mount(cache, "store")
	read(mnt)
	unmount()
	asked := f.proxy.Requests.Load()
	compare(b, "files", float64(len(f.names)), func() float64 {
		mnt, unmount := testmount.MountOnce(b, env, local, "--no-background")
		defer unmount()
		return read(mnt)
	}, func() float64 {
		mnt, unmount := f.mount(cache, "store")
		defer unmount()
		return read(mnt)
	})
	b.ReportMetric(float64(f.proxy.Requests.Load()-asked)/float64(b.N), "requests/pass")
}

// BenchmarkBucketRecords reads a store of records of 1,024 in its packed order.
func BenchmarkBucketRecords(b *testing.B) {
	f := newFaraway(b, 8, 0)
	f.pack("store", "--record-images", "1024")
	for b.Loop() {
		mnt, unmount := f.mount("", "store")
		names := files(b, filepath.Join(mnt, "scan5"))
		before := f.proxy.Requests.Load()
		bytes := readBy(b, names, 1<<20, 1)
		b.ReportMetric(float64(f.proxy.Requests.Load()-before)/float64(len(names)), "requests/file")
		b.SetBytes(bytes)
		unmount()
	}
}

// BenchmarkBucketParquet reads an epoch view of the Parquet files of PIPEFS_TABLES from a bucket, from the moment on when it is mounted,
// while the places of rows are looked for; then, mounted again, from its middle on. The cache on the disk holds all.
func BenchmarkBucketParquet(b *testing.B) {
	tables, err := filepath.Glob(filepath.Join(os.Getenv("PIPEFS_TABLES"), "*.parquet"))
	testenv.Must(b, err)
	if len(tables) == 0 {
		b.Skip("PIPEFS_TABLES names no directory of Parquet files")
	}
	f := newFaraway(b, 0, 0)
	at, size := f.place(f.server, "tables"), int64(0)
	for _, from := range tables {
		data, err := os.ReadFile(from)
		testenv.Must(b, err)
		_, err = at.PutIfAbsent(b.Context(), filepath.Base(from), bytes.NewReader(data), int64(len(data)))
		testenv.Must(b, err)
		size += int64(len(data))
	}
	const view, batch = ".epoch/7/0/1/0/32/rrc224-hflip-npy", 32
	read := func(mnt string, k int) [sha256.Size]byte {
		data, err := os.ReadFile(filepath.Join(mnt, view, fmt.Sprintf("%06d.npy", k)))
		testenv.Must(b, err)
		return sha256.Sum256(data)
	}
	var mounted, epoch, again, resumed []float64
	for b.Loop() {
		cache, asked, fetched := b.TempDir(), f.proxy.Requests.Load(), f.proxy.Bytes.Load()
		var mnt string
		var unmount func()
		mounted = append(mounted, seconds(func() { mnt, unmount = f.mount(cache, "tables") }))
		var sums [][sha256.Size]byte
		pass := func() {
			batches, err := filepath.Glob(filepath.Join(mnt, view, "??????.npy"))
			testenv.Must(b, err)
			sums = sums[:0]
			for k := range len(batches) {
				sums = append(sums, read(mnt, k))
			}
		}
		epoch = append(epoch, seconds(pass))
		b.ReportMetric(float64(f.proxy.Bytes.Load()-fetched)/float64(size), "bytes/byte")
		b.ReportMetric(float64(f.proxy.Requests.Load()-asked)/float64(size>>20), "requests/MiB")
		fetched = f.proxy.Bytes.Load()
		again = append(again, seconds(pass))
		b.ReportMetric(float64(f.proxy.Bytes.Load()-fetched)/float64(size), "bytes/byte-again")
		unmount()
		mnt, unmount = f.mount(cache, "tables")
		middle := len(sums) / 2
		resumed = append(resumed, seconds(func() { read(mnt, middle) }))
		for k := middle; k < len(sums); k++ {
			if read(mnt, k) != sums[k] {
				b.Fatalf("batch %d differs after a new mount", k)
			}
		}
		unmount()
		b.ReportMetric(float64(batch*len(sums))/views.Median(epoch), "images/s")
		b.ReportMetric(float64(batch*len(sums))/views.Median(again), "images/s-again")
	}
	b.ReportMetric(views.Median(mounted), "s-mount")
	b.ReportMetric(views.Median(resumed), "s-resume")
}

// BenchmarkBucketShared has eight processes read one view of a cold mount.
func BenchmarkBucketShared(b *testing.B) {
	f := newFaraway(b, 2, 0)
	for b.Loop() {
		mnt, unmount := f.mount("", "dataset")
		names := files(b, filepath.Join(mnt, "original"))
		before := f.proxy.Bytes.Load()
		var all errgroup.Group
		for range 8 {
			all.Go(func() error {
				cmd := exec.Command("cat", names...)
				cmd.Stdout = io.Discard
				return cmd.Run()
			})
		}
		testenv.Must(b, all.Wait())
		b.ReportMetric(float64(f.proxy.Bytes.Load()-before)/float64(f.bytes), "bytes/bytes")
		unmount()
	}
}

// BenchmarkBucketEpochs reads an epoch view over a bucket through 100 and 50 MB/s. The controls are the same view over the local
// disk, the client, which decodes nothing, and both of them at once: what the cores of this machine give, which have the
// server and the distance to do as well.
func BenchmarkBucketEpochs(b *testing.B) {
	for _, bandwidth := range []int64{100e6, 50e6} {
		b.Run(fmt.Sprintf("%dMBps", bandwidth/1e6), func(b *testing.B) { bucketEpochs(b, newFaraway(b, 6, bandwidth)) })
	}
}

func bucketEpochs(b *testing.B, f *faraway) {
	b.Helper()
	const view = ".epoch/7/0/1/0/32/rrc224-hflip-npy"
	read := func(mnt string) float64 {
		return seconds(func() {
			for k := range (len(f.names) + 31) / 32 {
				_, err := readFile(filepath.Join(mnt, view, fmt.Sprintf("%06d.npy", k)), make([]byte, 1<<20))
				testenv.Must(b, err)
			}
		})
	}
	spent := func(name, mnt string) (took float64) { // and what the daemon takes of the processor
		daemon := attach(b, mnt)
		before := cpuOf(b, daemon)
		took = read(mnt)
		b.ReportMetric(1e3*(cpuOf(b, daemon)-before)/float64(len(f.names)), "cpu-ms/image-"+name)
		return took
	}
	var c columns
	for b.Loop() {
		c.add("client", f.client(64))
		mnt, unmount := testmount.MountOnce(b, testmount.Home(b), f.dataset, "--no-background")
		c.add("local", spent("local", mnt))
		unmount()
		mnt, unmount = testmount.MountOnce(b, testmount.Home(b), f.dataset, "--no-background")
		c.add("both", seconds(func() {
			fetched := make(chan struct{})
			go func() {
				defer close(fetched)
				f.client(64)
			}()
			read(mnt)
			<-fetched
		}))
		unmount()
		mnt, unmount = f.mount("", "dataset")
		c.add("bucket", spent("bucket", mnt))
		unmount()
	}
	c.report(b, "images", float64(len(f.names)))
}
