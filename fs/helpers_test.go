package fs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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

// textCodec takes any bytes for a picture, but those that begin with KEEP. The files of JPEG, PNG and BMP are told by
// their names alone.
type textCodec struct {
	transcode.Decoder
	format     transcode.Format
	extensions []string
	// before is called with the bytes before they are decoded.
	before *atomic.Pointer[func(ctx context.Context, src []byte) error]
}

func (d textCodec) Format() transcode.Format { return d.format }
func (d textCodec) ID() string               { return d.format.String() }
func (d textCodec) Extensions() []string     { return d.extensions }

func (d textCodec) Sniff(head []byte) bool {
	return d.format == transcode.JPEG && !bytes.HasPrefix(head, []byte("KEEP"))
}

func (d textCodec) Probe(_ io.ReaderAt, size int64, _ transcode.Limits) (transcode.Info, error) {
	return transcode.Info{Format: d.format, Mode: transcode.ModeL, Width: int(size), Height: 1}, nil
}

func (d textCodec) Decode(ctx context.Context, src []byte, _ transcode.Limits) (*transcode.Pixels, error) {
	if bytes.HasPrefix(src, []byte("BROKEN")) {
		return nil, transcode.Errorf(transcode.ErrBad, "scan 3")
	}
	if d.before != nil {
		if before := d.before.Load(); before != nil {
			if err := (*before)(ctx, src); err != nil {
				return nil, err
			}
		}
	}
	return &transcode.Pixels{Width: len(src), Height: 1, Mode: transcode.ModeL, Pix: bytes.Clone(src)}, nil
}

// derived is what a view makes of a sample.
func derived(view string, src []byte) []byte {
	if view == transcode.Original || len(src) == 0 || bytes.HasPrefix(src, []byte("KEEP")) {
		return src
	}
	return append(append(fmt.Appendf(nil, "%-*s", derivedHead, view), src...), src...)
}

// derivedHead is how many bytes say which view it is.
const derivedHead = 48

// testRegistry has kinds that are like the real ones by name and extension.
func testRegistry() *transcode.Registry { return textRegistry(nil) }

func textRegistry(before *atomic.Pointer[func(context.Context, []byte) error]) *transcode.Registry {
	same := func(in transcode.Shape, _ int) (transcode.Shape, bool) { return in, true }
	// The steps so far travel with the pixels.
	pass := func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
		px := *in.Pixels
		px.Meta.ICC = append(bytes.Clone(px.Meta.ICC), c.String()+"-"...)
		return transcode.Payload{Pixels: &px}, nil
	}
	picture := func(name string, f transcode.Format, e transcode.Effect) *transcode.Kind {
		return &transcode.Kind{Name: name, From: transcode.Picture | transcode.Tensor, To: transcode.File, Format: f, Ext: name, Effect: e, Shape: same,
			Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
				return transcode.Payload{Bytes: derived(string(in.Pixels.Meta.ICC)+c.String(), in.Pixels.Pix)}, nil
			}}
	}
	jpeg := picture("jpeg", transcode.JPEG, transcode.Lossy)
	jpeg.Ext, jpeg.Min, jpeg.Max = "jpg", 1, 100
	npy := picture("npy", transcode.NPY, transcode.Exact)
	npy.Size = func(s transcode.Shape) int64 { return derivedHead + 2*int64(s.Width) } // a random view may end with it
	return transcode.NewRegistry(transcode.Limits{}, []transcode.Decoder{
		textCodec{format: transcode.JPEG, extensions: []string{"jpg", "jpeg"}, before: before},
		textCodec{format: transcode.PNG, extensions: []string{"png"}},
		textCodec{format: transcode.BMP, extensions: []string{"bmp"}},
	}, []*transcode.Kind{
		{Name: "scan", Min: 1, Max: 10, From: transcode.Source, To: transcode.Source, Shape: same,
			Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
				return transcode.Payload{Bytes: derived(c.String(), in.Bytes)}, nil
			}},
		{Name: "resize", Min: 1, Max: 9999, From: transcode.Picture, To: transcode.Picture, Effect: transcode.Geometric, Shape: same, Apply: pass},
		{Name: "flip", From: transcode.Picture, Effect: transcode.Geometric, Shape: same, Apply: pass,
			Draw:   func(transcode.Shape, transcode.Step, *transcode.Random) (c transcode.Choice) { return c },
			Center: func(int) string { return "" }},
		picture("bmp", transcode.BMP, transcode.Exact), npy,
		picture("png", transcode.PNG, transcode.Exact), jpeg,
	})
}

// newServer makes the files of a dataset.
func newServer(t testing.TB, registry *transcode.Registry, d source.Dataset, mode CacheMode) *serve.Server {
	t.Helper()
	p, err := serve.New(serve.Options{Registry: registry, Source: d, Dataset: d, Memfd: mode == DaemonCache})
	testenv.Must(t, err)
	return p
}

// failing is a dataset whose files cannot be opened for a while.
type failing struct {
	source.Dataset
	cause *atomic.Pointer[error]
}

func (f failing) Open(name string) (*source.File, error) {
	if cause := f.cause.Load(); cause != nil {
		return nil, *cause
	}
	return f.Dataset.Open(name)
}

// mounted is a mount over a dataset of the test.
type mounted struct {
	*Mountpoint
	t        testing.TB
	src, mnt string
	dir      *source.Directory
	p        *serve.Server
	before   atomic.Pointer[func(ctx context.Context, src []byte) error] // see textCodec
	fails    atomic.Pointer[error]                                       // see failing
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
		m.end()
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
	m := &mounted{t: t, src: src, mnt: mnt, dir: d, log: &testenv.Log{}}
	registry := textRegistry(&m.before)
	m.p = newServer(t, registry, failing{d, &m.fails}, mode)
	o := Options{
		Registry: registry, Server: m.p, Cache: mode, Views: []string{"original", "scan5", "bmp"},
		Log: slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if mode == DaemonCache {
		o.Freshness = Checked
	}
	for _, c := range change {
		c(&o)
	}
	if o.Freshness == Watched {
		o.Watcher, err = d.Watch()
		testenv.Must(t, err)
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
	testenv.Must(m.t, m.p.Close())
	if n := m.p.Stats().MemoryBytes; n != 0 {
		m.t.Errorf("%d bytes of contents are still pinned", n)
	}
	m.dir.Close()
}

// forget empties the cache of open content.
func (m *mounted) forget() { m.p.Renewed(true) }

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
