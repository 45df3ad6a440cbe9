package fs

import (
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

// TestWithServe serves the files of a dataset by package serve.
func TestWithServe(t *testing.T) {
	for _, mode := range []CacheMode{PageCache, DaemonCache} {
		t.Run(mode.String(), func(t *testing.T) {
			var p *serve.Server
			m := mount(t, mode, func(o *Options) {
				d := o.Server.(*fakeServer).Directory
				p = newProducer(t, o, d, mode == DaemonCache)
				o.Server = Serve(p)
			})
			t.Cleanup(func() { testenv.Must(t, m.unmount()); testenv.Must(t, p.Close()) })
			m.write("a.jpg", noise(300_000, 1))
			m.write("b.txt", noise(300_000, 2))
			m.want(noise(300_000, 1), "original/a.jpg")
			m.want(noise(300_000, 2), "bmp/b.txt")
			m.replace("a.jpg", noise(10_000, 3))
			m.names("original")
			m.told()
			m.want(noise(10_000, 3), "original/a.jpg")
		})
	}
}

func newProducer(t *testing.T, o *Options, d *source.Directory, memfd bool) *serve.Server {
	t.Helper()
	p, err := serve.New(serve.Options{Registry: o.Registry, Source: d, Dataset: d, Memfd: memfd})
	testenv.Must(t, err)
	return p
}

// TestServeReadDoesNotAllocate: neither with package serve.
func TestServeReadDoesNotAllocate(t *testing.T) {
	d, err := source.Open(t.TempDir(), source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	o := Options{Registry: testRegistry()}
	p := newProducer(t, &o, d, false)
	defer p.Close()
	o.Server = Serve(p)
	f, err := New(o)
	testenv.Must(t, err)
	m := &mounted{t: t, src: d.Root(), fs: f}
	m.write("a.jpg", noise(300_000, 1))
	var entry fuse.EntryOut
	header := fuse.InHeader{NodeId: node(originalView, rootID)}
	if status := f.Lookup(nil, &header, "a.jpg", &entry); status != fuse.OK {
		t.Fatal(status)
	}
	in := &fuse.ReadIn{Offset: 4096, Size: 128 << 10}
	in.NodeId = entry.NodeId
	buf := make([]byte, in.Size)
	read := func() {
		r, status := f.Read(nil, in, buf)
		if status != fuse.OK || r.Size() != len(buf) {
			t.Fatal(status)
		}
		r.Done()
	}
	read()
	if allocs := testing.AllocsPerRun(1000, read); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestFailuresAreToldOnceAnHour(t *testing.T) {
	var f failures
	f.init()
	broken, now := failure{"bmp", "a.jpg", "input ends"}, time.Now()
	for i, c := range []struct {
		what  failure
		after time.Duration
		times int
		tell  bool
	}{
		{broken, 0, 1, true},
		{broken, time.Second, 2, false},
		{failure{"npy", "a.jpg", "input ends"}, time.Second, 1, true},
		{failure{"bmp", "a.jpg", "disk on fire"}, time.Second, 1, true},
		{broken, failureEvery, 3, true},
		{broken, failureEvery + time.Second, 4, false},
	} {
		if times, tell := f.count(c.what, now.Add(c.after)); times != c.times || tell != c.tell {
			t.Errorf("%d: %d times, told %v", i, times, tell)
		}
	}
}
