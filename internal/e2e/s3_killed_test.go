package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// smallDisk is a file system of its own for a cache directory, which can be full.
type smallDisk struct {
	t   *testing.T
	dir string
	r   *rand.Rand
}

func newSmallDisk(t *testing.T, bytes int, r *rand.Rand) *smallDisk {
	testenv.Root(t)
	d := &smallDisk{t: t, dir: t.TempDir(), r: r}
	testenv.Must(t, unix.Mount("none", d.dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)))
	t.Cleanup(func() { testenv.Must(t, unix.Unmount(d.dir, unix.MNT_DETACH)) })
	return d
}

// fill leaves no room, until the next time.
func (d *smallDisk) fill() {
	name := filepath.Join(d.dir, "other")
	if os.Remove(name) == nil {
		return
	}
	f, err := os.Create(name)
	if err != nil {
		return
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 1<<16))
	}
	if !errors.Is(err, unix.ENOSPC) {
		d.t.Error(err)
	}
}

// damage changes a file below the cache directory: one that mounts use, or the next one finds.
func (d *smallDisk) damage() {
	var files []string
	_ = filepath.WalkDir(filepath.Join(d.dir, "pipefs"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && !strings.HasSuffix(path, "lock") {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		return
	}
	path := files[d.r.IntN(len(files))]
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return
	}
	at := d.r.Int64N(info.Size())
	switch d.r.IntN(10) {
	case 0:
		_ = f.Truncate(at)
	case 1:
		_ = f.Truncate(info.Size() + at)
	case 2:
		_ = os.Remove(path)
	case 3:
		_, _ = f.WriteAt(make([]byte, d.r.IntN(1<<14)), at)
	default:
		var b [1]byte
		_, _ = f.ReadAt(b[:], at)
		b[0] ^= 1 << d.r.IntN(8)
		_, _ = f.WriteAt(b[:], at)
	}
}

// readersOf read files of a mount, cold, at random, while it may be another one at any time.
type readersOf struct {
	t      *testing.T
	want   map[string][32]byte
	names  []string
	mnt    atomic.Pointer[string]
	may    []error // fail in reading
	stop   chan struct{}
	all    sync.WaitGroup
	right  atomic.Int64
	failed atomic.Int64
}

func (r *readersOf) begin(readers int, seed uint64) {
	r.names, r.stop = slices.Sorted(maps.Keys(r.want)), make(chan struct{})
	for i := range readers {
		r.all.Go(func() {
			for choose := rand.New(rand.NewPCG(seed, uint64(i))); ; {
				select {
				case <-r.stop:
					return
				default:
				}
				name := r.names[choose.IntN(len(r.names))]
				switch sum, err := readCold(filepath.Join(*r.mnt.Load(), name)); {
				case err == nil && sum == r.want[name]:
					r.right.Add(1)
				case err == nil:
					r.t.Errorf("%s has other bytes", name)
					return
				case slices.ContainsFunc(r.may, func(e error) bool { return errors.Is(err, e) }):
					r.failed.Add(1)
					time.Sleep(time.Millisecond) // leave the processor to who is mounting
				default:
					r.t.Error(err)
					return
				}
			}
		})
	}
}

// goOn waits for so many reads more.
func (r *readersOf) goOn(reads int) {
	r.t.Helper()
	before := r.right.Load()
	testenv.EventuallyIs(r.t, "readers read", func() bool { return r.right.Load() >= before+int64(reads) || r.t.Failed() })
}

// TestBucketKilled kills the daemon of a mount at any moment, while readers read, and the cache
// directory is damaged and is full now and then. Readers get the right bytes or an error,
// and who reads later gets the right ones. PIPEFS_SOAK=1 kills 200 daemons.
func TestBucketKilled(t *testing.T) {
	b := &inBucket{server: testenv.S3(t), url: "s3://test-bucket/store"}
	b.way = testenv.Distance(t, b.server.Endpoint, testenv.Way{Latency: time.Millisecond})
	b.env, b.dataset, _ = packed(t, "-samples", "24", "-classes", "3", "-width", "320", "-height", "240")
	b.env = b.on(b.env)
	testmount.Command(t, b.env, "pack", b.dataset, b.url)
	upload(t, b.server, b.dataset, "dataset", slices.Collect(maps.Keys(hashes(t, b.dataset)))...)
	near := testmount.Mount(t, b.env, b.dataset)
	want := map[string][32]byte{}
	for _, view := range []string{"original", "scan5", "bmp", "resize64-npy"} {
		for name, sum := range hashes(t, filepath.Join(near, view)) {
			want[filepath.Join(view, name)] = sum
		}
	}
	kills := 2
	if testenv.Soak() {
		kills = 50
	}
	seed := testenv.Seed(t)
	for _, what := range []struct {
		name, url string
		options   []string
	}{
		{"store", b.url, nil},
		{"store-supervised", b.url, []string{"--supervise", "--deaths", "1000"}},
		{"dataset", "s3://test-bucket/dataset", nil},
		{"dataset-supervised", "s3://test-bucket/dataset", []string{"--supervise", "--deaths", "1000"}},
	} {
		t.Run(what.name, func(t *testing.T) {
			k := &killed{t: t, url: what.url, options: what.options, disk: newSmallDisk(t, 24<<20, rand.New(rand.NewPCG(seed, 1)))}
			k.env = append(b.on(testmount.Home(t)), "XDG_CACHE_HOME="+k.disk.dir)
			k.readers = &readersOf{t: t, want: want, may: []error{unix.EIO}}
			if what.options == nil { // nobody serves it, or it was unmounted
				k.readers.may = append(k.readers.may, unix.ENOTCONN, unix.ECONNABORTED, unix.ENOENT, unix.ENODEV)
			}
			k.mount()
			k.readers.begin(4, seed)
			defer k.end()
			for range kills {
				if k.kill(); t.Failed() {
					return
				}
			}
			t.Logf("%d kills; %d reads gave the right bytes, %d an error", kills, k.readers.right.Load(), k.readers.failed.Load())
		})
	}
}

// killed is a mount whose daemon is killed.
type killed struct {
	t       *testing.T
	env     []string
	url     string
	options []string
	disk    *smallDisk
	readers *readersOf
	unmount func()
}

func (k *killed) mount() {
	k.t.Helper()
	var mnt string
	mnt, k.unmount = testmount.MountOnce(k.t, k.env, k.url, k.options...)
	k.readers.mnt.Store(&mnt)
}

// end ends the readers and the mount, whatever state it is in.
func (k *killed) end() {
	close(k.readers.stop)
	if k.t.Failed() { // readers may wait for ever
		_ = unix.Unmount(*k.readers.mnt.Load(), unix.MNT_FORCE|unix.MNT_DETACH)
	}
	k.readers.all.Wait()
	if !k.t.Failed() {
		k.unmount()
	}
}

// pid is that of the daemon; 0 while nobody answers.
func (k *killed) pid() int {
	cmd := exec.Command(testmount.Binary(k.t), "stats", "--json", *k.readers.mnt.Load())
	cmd.Env = k.env
	var stats control.Stats
	if out, err := cmd.Output(); err != nil || json.Unmarshal(out, &stats) != nil {
		return 0
	}
	return stats.PID
}

// kill kills the daemon, after a random number of reads.
func (k *killed) kill() {
	k.t.Helper()
	r := k.disk.r
	for range 1 + r.IntN(8) {
		k.readers.goOn(r.IntN(20))
		k.disk.damage()
	}
	if r.IntN(2) == 0 {
		k.disk.fill()
		k.readers.goOn(r.IntN(20))
	}
	before := k.pid()
	if before == 0 {
		k.t.Fatal("the daemon has died by itself")
	}
	testenv.Must(k.t, syscall.Kill(before, syscall.SIGKILL))
	if k.options == nil {
		k.unmount()
		k.mount()
	} else {
		testenv.EventuallyIs(k.t, "the next daemon serves", func() bool {
			now := k.pid()
			return now != 0 && now != before
		})
	}
	// A list of names that is damaged is an error until the place is listed again.
	if strings.HasSuffix(k.url, "dataset") {
		testmount.Command(k.t, k.env, "refresh", *k.readers.mnt.Load())
	}
	k.readers.goOn(20)
}

// TestUnmountedInRetry: an unmount ends the requests to a bucket that wait for an answer, or to be
// repeated, of readers and of what is fetched ahead.
func TestUnmountedInRetry(t *testing.T) {
	testenv.Mounts(t)
	dataset := testmount.Generate(t, "-samples", "400", "-width", "80", "-height", "60")
	server := testenv.S3(t)
	upload(t, server, dataset, "data", slices.Collect(maps.Keys(hashes(t, dataset)))...)
	for name, way := range map[string]testenv.Way{
		"no answer":    {Fault: func(*http.Request) testenv.Fault { return testenv.Hung }},
		"refused":      {Refused: 1},
		"reset":        {Reset: 1},
		"cut short":    {Truncated: 1},
		"another ETag": {Header: func(h http.Header) { h.Set("ETag", `"another"`) }},
		"wrong range": {Header: func(h http.Header) {
			if h.Get("Content-Range") != "" {
				h.Set("Content-Range", "bytes 7-8/9")
			}
		}},
	} {
		hows := []string{"terminated"}
		if name == "no answer" || name == "refused" { // one that waits for an answer, and one that is repeated
			hows = append(hows, "forced", "fetched ahead")
		}
		for _, how := range hows {
			t.Run(name+"/"+how, func(t *testing.T) {
				proxy := testenv.Distance(t, server.Endpoint, testenv.Way{})
				env := append(testmount.Home(t), server.Env()...)
				env = append(env, "AWS_ENDPOINT_URL="+proxy.Endpoint)
				mnt, _ := testmount.MountOnce(t, env, "s3://"+server.Bucket+"/data")
				t.Cleanup(func() { _ = unix.Unmount(mnt, unix.MNT_DETACH) }) // where the test failed
				stats := statsOf(t, mnt)
				var readers []*exec.Cmd
				var ended atomic.Int32
				requests := proxy.Requests.Load()
				more := func() error {
					if n := proxy.Requests.Load() - requests; n < 2 {
						return fmt.Errorf("%d requests", n)
					}
					return nil
				}
				if how != "fetched ahead" {
					files, err := filepath.Glob(filepath.Join(mnt, "scan3", "*", "*"))
					testenv.Must(t, err)
					proxy.Set(way)
					for _, file := range files[len(files)-4:] {
						cmd := exec.Command("cat", file)
						testenv.Must(t, cmd.Start())
						readers = append(readers, cmd)
						t.Cleanup(func() { _ = cmd.Process.Kill() })
						go func() { _ = cmd.Wait(); ended.Add(1) }()
					}
				} else {
					// The first batch comes, and what is fetched for others waits until that is read.
					dir := filepath.Join(mnt, ".epoch/1/0/1/0/4/rrc64-npy")
					first, err := os.ReadFile(filepath.Join(dir, "000000.paths.txt"))
					testenv.Must(t, err)
					isRead, waiting := make(chan struct{}), atomic.Int32{}
					proxy.Set(testenv.Way{Fault: func(q *http.Request) testenv.Fault {
						if strings.Contains(string(first), strings.TrimPrefix(q.URL.Path, "/"+server.Bucket+"/data/")+"\n") {
							return testenv.Passed
						}
						waiting.Add(1)
						select {
						case <-isRead:
						case <-q.Context().Done():
						}
						if way.Fault != nil {
							return way.Fault(q)
						}
						return way.Draw()
					}})
					_, err = os.ReadFile(filepath.Join(dir, "000000.npy"))
					testenv.Must(t, err)
					close(isRead)
					more = func() error {
						if n := waiting.Load(); n < 2 {
							return fmt.Errorf("%d requests are waiting", n)
						}
						return nil
					}
				}
				testenv.Eventually(t, more)
				began := time.Now()
				switch how {
				case "terminated": // it is busy for two seconds, and then read for one
					testenv.Must(t, unix.Kill(stats.PID, unix.SIGTERM))
				case "forced":
					testmount.Command(t, env, "umount", "--force", mnt)
				default:
					testmount.Command(t, env, "umount", mnt)
				}
				testenv.EventuallyIs(t, "the daemon ends", func() bool { return unix.Kill(stats.PID, 0) != nil })
				testenv.EventuallyIs(t, "readers end", func() bool { return int(ended.Load()) == len(readers) })
				// A request waits 15 seconds for an answer, and is repeated for two minutes.
				if took := time.Since(began); took > 12*time.Second {
					t.Errorf("it took %v", took)
				}
				if b, err := os.ReadFile("/proc/mounts"); err == nil && strings.Contains(string(b), mnt) {
					t.Error("the mount is still there")
				}
			})
		}
	}
}
