package fs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

func TestMain(m *testing.M) {
	if run := os.Getenv("PIPEFS_TEST_CHILD"); run != "" {
		os.Exit(child(run, os.Args[1:]))
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// fakeDecoder knows the names of a format's files and nothing else.
type fakeDecoder struct {
	transcode.Decoder
	format     transcode.Format
	extensions []string
}

func (d fakeDecoder) Format() transcode.Format { return d.format }
func (d fakeDecoder) ID() string               { return d.format.String() }
func (d fakeDecoder) Extensions() []string     { return d.extensions }

// testRegistry has kinds that are like the real ones by name and extension.
func testRegistry() *transcode.Registry {
	picture := func(name string, f transcode.Format, e transcode.Effect) *transcode.Kind {
		return &transcode.Kind{Name: name, From: transcode.Picture | transcode.Tensor, To: transcode.File, Format: f, Ext: name, Effect: e}
	}
	jpeg := picture("jpeg", transcode.JPEG, transcode.Lossy)
	jpeg.Ext, jpeg.Min, jpeg.Max = "jpg", 1, 100
	npy := picture("npy", transcode.NPY, transcode.Exact)
	npy.Size = func(transcode.Shape) int64 { return 0 } // a random view may end with it
	return transcode.NewRegistry(transcode.Limits{}, []transcode.Decoder{
		fakeDecoder{format: transcode.JPEG, extensions: []string{"jpg", "jpeg"}},
		fakeDecoder{format: transcode.PNG, extensions: []string{"png"}},
		fakeDecoder{format: transcode.BMP, extensions: []string{"bmp"}},
	}, []*transcode.Kind{
		{Name: "scan", Min: 1, Max: 10, From: transcode.Source, To: transcode.Source},
		{Name: "resize", Min: 1, Max: 9999, From: transcode.Picture, To: transcode.Picture, Effect: transcode.Geometric},
		{Name: "flip", From: transcode.Picture, Effect: transcode.Geometric, Draw: func(transcode.Shape, transcode.Step, *transcode.Random) (c transcode.Choice) { return c },
			Center: func(int) string { return "" }},
		picture("bmp", transcode.BMP, transcode.Exact), npy,
		picture("png", transcode.PNG, transcode.Exact), jpeg,
	})
}

// fakeServer makes the bytes of a view by a rule that tests can repeat.
type fakeServer struct {
	*source.Directory
	memfd bool

	mu   sync.RWMutex
	open map[serve.Key]*fakeContent

	resolves, opened atomic.Int64
	pinned           atomic.Int64
	backed, backings atomic.Int64 // contents that the kernel knows now, and ever
	// before is called with the path before anything is produced.
	before atomic.Pointer[func(ctx context.Context, path string) error]
}

func (*fakeServer) OnError() serve.OnError             { return serve.Fail }
func (*fakeServer) Excuse(_ string, cause error) error { return cause }
func (*fakeServer) Replaceable(string) error           { return nil }

type fakeContent struct {
	p    *fakeServer
	size int64
	io.ReaderAt
	memory *os.File
	close  io.Closer
	refs   atomic.Int64

	backing atomic.Int32
	forget  func(int32)
}

func (c *fakeContent) Size() int64     { return c.size }
func (c *fakeContent) Pin()            { c.refs.Add(1); c.p.pinned.Add(1) }
func (c *fakeContent) Passed(int) bool { return false }

func (c *fakeContent) Bytes(int64, int) []byte { return nil }

func (c *fakeContent) Memory() *os.File { return c.memory }
func (c *fakeContent) Release() {
	c.p.pinned.Add(-1)
	if c.refs.Add(-1) == 0 {
		if id := c.backing.Load(); id != 0 {
			c.forget(id)
			c.p.backed.Add(-1)
		}
		if c.close != nil {
			c.close.Close()
		}
	}
}

func (c *fakeContent) Backing() int32 { return c.backing.Load() }

func (c *fakeContent) Back(id int32, forget func(int32)) {
	c.p.backed.Add(1)
	c.p.backings.Add(1)
	c.forget = forget
	c.backing.Store(id)
}

// derived is what a view makes of a sample.
func derived(view string, src []byte) []byte {
	if view == transcode.Original || bytes.HasPrefix(src, []byte("KEEP")) {
		return src
	}
	out := []byte(view + "\n")
	for len(out) < len(src)*2 {
		out = append(out, src...)
		out = append(out, view...)
	}
	return out
}

func (p *fakeServer) make(ctx context.Context, f serve.File, v transcode.Pipeline) ([]byte, error) {
	if before := p.before.Load(); before != nil {
		if err := (*before)(ctx, f.Path); err != nil {
			return nil, err
		}
	}
	file, err := p.Directory.Open(f.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if file.Identity != f.Identity {
		return nil, source.ErrChanged
	}
	src, err := file.ReadAll()
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(src, []byte("BROKEN")) {
		return nil, fmt.Errorf("scan 3: %w", transcode.ErrBad)
	}
	return derived(v.Whole().String(), src), nil
}

// fakeHandle is a file in a view of a fakeServer.
type fakeHandle struct {
	p         *fakeServer
	key       serve.Key
	file      serve.File
	view      transcode.Pipeline
	size      int64
	unchanged bool
}

func (h *fakeHandle) Size() int64              { return h.size }
func (h *fakeHandle) Unchanged() bool          { return h.unchanged }
func (h *fakeHandle) Plan() (p transcode.Plan) { return p }
func (h *fakeHandle) Cached() Content          { return h.p.Acquire(h.key) }
func (h *fakeHandle) Drop()                    { h.p.Drop(h.key) }
func (h *fakeHandle) Open(ctx context.Context) (Content, error) {
	return h.p.Open(ctx, h.key, h.file, h.view)
}

// Resolve knows the views of JPEG files without any effort.
func (p *fakeServer) Resolve(ctx context.Context, key serve.Key, f serve.File, v transcode.Pipeline, most serve.Effort) (Handle, error) {
	h := &fakeHandle{p: p, key: key, file: f, view: v, size: f.Identity.Size, unchanged: true}
	if most == serve.Stored && path.Ext(f.Path) != ".jpg" {
		return nil, serve.ErrUnknown
	}
	if v.Len() == 0 || !testRegistry().IsSample(f.Path) {
		return h, nil
	}
	p.resolves.Add(1)
	if v.Stored() && !strings.Contains(path.Base(f.Path), "s") { // those with an s are stored
		return h, nil
	}
	data, err := p.make(ctx, f, v)
	h.size, h.unchanged = int64(len(data)), bytes.HasPrefix(data, []byte("KEEP"))
	return h, err
}

func (p *fakeServer) Stat(path string, fresh bool) (source.Attr, error) {
	if fresh {
		return p.Fresh(path)
	}
	return p.Directory.Stat(path)
}

func (p *fakeServer) Acquire(key serve.Key) Content {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if c := p.open[key]; c != nil {
		c.refs.Add(1)
		p.pinned.Add(1)
		return c
	}
	return nil
}

func (p *fakeServer) Drop(key serve.Key) {
	p.mu.Lock()
	c := p.open[key]
	delete(p.open, key)
	p.mu.Unlock()
	if c != nil {
		p.pinned.Add(1)
		c.Release()
	}
}

func (p *fakeServer) Open(ctx context.Context, key serve.Key, f serve.File, v transcode.Pipeline) (Content, error) {
	if c := p.Acquire(key); c != nil {
		return c, nil
	}
	p.opened.Add(1)
	c := &fakeContent{p: p}
	if v.Len() == 0 {
		file, err := p.Directory.Open(f.Path)
		if err != nil {
			return nil, err
		}
		if file.Identity != f.Identity {
			file.Close()
			return nil, source.ErrChanged
		}
		c.size, c.ReaderAt, c.close = f.Identity.Size, verified{file}, file
	} else {
		data, err := p.make(ctx, f, v)
		if err != nil {
			return nil, err
		}
		c.size, c.ReaderAt = int64(len(data)), bytes.NewReader(data)
		if p.memfd {
			fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
			if err != nil {
				return nil, err
			}
			m := os.NewFile(uintptr(fd), "memfd")
			if _, err := m.Write(data); err != nil {
				return nil, err
			}
			c.memory, c.ReaderAt, c.close = m, m, m
		}
	}
	c.refs.Store(2)
	p.pinned.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.open[key]; other != nil {
		if c.close != nil {
			c.close.Close()
		}
		other.refs.Add(1)
		return other, nil
	}
	p.open[key] = c
	return c, nil
}

// forget empties the cache of open content.
func (p *fakeServer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		p.pinned.Add(1)
		c.Release()
	}
	p.open = map[serve.Key]*fakeContent{}
}

// verified makes sure after each read that the file still is the same.
type verified struct{ *source.File }

func (v verified) ReadAt(b []byte, off int64) (int, error) {
	n, err := v.File.ReadAt(b, off)
	if changed := v.Verify(); changed != nil {
		return 0, changed
	}
	return n, err
}

// mounted is a mount over a dataset of the test.
type mounted struct {
	*Mountpoint
	t        testing.TB
	src, mnt string
	p        *fakeServer
	fs       *FS
	log      *testenv.Log
	busy     bool // the test leaves files open
}

// mount mounts a new dataset. After the test nothing may be left behind.
func mount(t testing.TB, mode CacheMode, change ...func(*Options)) *mounted {
	t.Helper()
	testenv.Mounts(t)
	src, mnt := t.TempDir(), t.TempDir()
	fds := countFds(t)
	m := mountAt(t, src, mnt, mode, change...)
	t.Cleanup(func() {
		if !m.busy {
			if err := m.unmount(); err != nil {
				t.Errorf("unmount: %v", err)
			}
		}
		testenv.Must(t, m.UnmountLazily())
		m.Wait()
		if n := m.p.pinned.Load(); n != 0 {
			t.Errorf("%d contents are still pinned", n)
		}
		m.p.forget()
		if n := m.p.backed.Load(); n != 0 {
			t.Errorf("the kernel still knows %d contents", n)
		}
		m.p.Close()
		if table, _ := os.ReadFile("/proc/self/mounts"); bytes.Contains(table, []byte(mnt)) {
			t.Errorf("%s is still mounted", mnt)
		}
		if now := countFds(t); !m.busy && now > fds {
			t.Errorf("%d descriptors before, %d after:%s", fds, now, listFds())
		}
		if strings.Contains(m.log.String(), "panic") {
			t.Error(m.log.String())
		}
	})
	return m
}

func mountAt(t testing.TB, src, mnt string, mode CacheMode, change ...func(*Options)) *mounted {
	t.Helper()
	d, err := source.Open(src, source.Options{})
	testenv.Must(t, err)
	m := &mounted{t: t, src: src, mnt: mnt, log: &testenv.Log{}}
	m.p = &fakeServer{Directory: d, open: map[serve.Key]*fakeContent{}, memfd: mode == DaemonCache}
	o := Options{
		Registry: testRegistry(), Server: m.p, Cache: mode, Views: []string{"original", "scan5", "bmp"},
		Log: slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if mode == DaemonCache {
		o.Freshness = Checked
	}
	for _, c := range change {
		c(&o)
	}
	if m.fs, err = New(o); err != nil {
		t.Fatal(err)
	}
	if m.Mountpoint, err = Mount(mnt, m.fs, MountOptions{Source: src}); err != nil {
		t.Fatal(err)
	}
	return m
}

// unmount waits for the end. While files of the mount are open, the mount stays.
func (m *mounted) unmount() error {
	select {
	case <-m.Done():
		return nil
	default:
	}
	err := mounts.Unmount(m.mnt, false)
	if err == nil {
		m.Wait()
	}
	return err
}

// end unmounts whatever is open, and gives back what the test made beside the mount.
func (m *mounted) end() {
	m.t.Helper()
	testenv.Must(m.t, m.UnmountLazily())
	m.Wait()
	m.p.forget()
	m.p.Close()
}

func countFds(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	testenv.Must(t, err)
	return len(fds)
}

func listFds() (s string) {
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		to, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		s += " " + to
	}
	return s
}

// write writes a file of the dataset.
func (m *mounted) write(name, content string) {
	m.t.Helper()
	path := filepath.Join(m.src, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// replace renames another file onto one of the dataset.
func (m *mounted) replace(name, content string) {
	m.t.Helper()
	m.write(name+".tmp", content)
	if err := os.Rename(filepath.Join(m.src, name+".tmp"), filepath.Join(m.src, name)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mounted) path(name ...string) string {
	return filepath.Join(append([]string{m.mnt}, name...)...)
}

// read reads a file of the mount, and compares its size with stat's.
func (m *mounted) read(name ...string) (string, error) {
	m.t.Helper()
	data, err := os.ReadFile(m.path(name...))
	if err != nil {
		return "", err
	}
	st, err := os.Stat(m.path(name...))
	if err == nil && st.Size() != int64(len(data)) {
		m.t.Errorf("%s: %d bytes read, stat says %d", m.path(name...), len(data), st.Size())
	}
	return string(data), nil
}

func (m *mounted) want(content string, name ...string) {
	m.t.Helper()
	got, err := m.read(name...)
	if err != nil {
		m.t.Errorf("read: %v", err)
	} else if got != content {
		m.t.Errorf("%s holds %.60q, want %.60q", m.path(name...), got, content)
	}
}

func (m *mounted) names(dir ...string) string {
	m.t.Helper()
	entries, err := os.ReadDir(m.path(dir...))
	if err != nil {
		m.t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return strings.Join(names, " ")
}

// told waits until the kernel was told of all changes.
func (m *mounted) told() {
	m.t.Helper()
	testenv.EventuallyIs(m.t, "the kernel was told of changes", func() bool { return m.fs.notify.busy.Load() == 0 })
}

func inode(t testing.TB, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return st.Ino
}
