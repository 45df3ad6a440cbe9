package share

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/fakecuda"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// bench is a server on a device for tests, and the files of its mount.
type bench struct {
	*Server
	t     *testing.T
	gpu   *devicetest.GPU
	on    *l3gpu.Backend
	files map[string][]byte
	log   *lines
	hold  chan struct{} // where there is one, files wait for it
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

// newBench serves clients, each with slots of 2 MiB.
func newBench(t *testing.T, clients int, d devicetest.Options, o Options) *bench {
	t.Helper()
	d.Machine = fakecuda.NewMachine()
	b := &bench{t: t, gpu: devicetest.New(d), files: map[string][]byte{}, log: new(lines)}
	memory := MemoryFor(clients)
	backend, err := l3gpu.Open(l3gpu.Options{Memory: memory + 24<<20, Tensors: memory}.On(b.gpu))
	testenv.Must(t, err)
	b.on = backend
	o.Clients, o.SlotBytes = clients, SlotBytes(memory, clients)
	o.Log = slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if o.GPU == nil {
		o.GPU = func() (*l3gpu.Backend, error) { return backend, nil }
	}
	o.Read = b.read
	dir, err := os.MkdirTemp("/tmp", "pf") // sockets need short paths
	testenv.Must(t, err)
	if b.Server, err = Serve(filepath.Join(dir, "gpu.sock"), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		if err := backend.Close(); err != nil && !errors.Is(err, l3gpu.ErrLost) {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("the socket stays: %v, %v", left, err)
		}
		os.RemoveAll(dir)
	})
	return b
}

func (b *bench) read(ctx context.Context, path string, room func(int64) error) ([]byte, error) {
	if b.hold != nil {
		select {
		case <-b.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f, ok := b.files[path]
	if !ok {
		return nil, &os.PathError{Op: "read", Path: path, Err: os.ErrNotExist}
	}
	if err := room(int64(len(f))); err != nil {
		return nil, err
	}
	return f, nil
}

// add makes a picture, and returns its path.
func (b *bench) add(mode transcode.Mode, width, height int) string {
	b.t.Helper()
	px := &transcode.Pixels{Width: width, Height: height, Mode: mode}
	if mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	for i := range width * height * mode.Channels() * mode.Depth() / 8 {
		px.Pix = append(px.Pix, byte(i*i>>7+31*len(b.files)))
	}
	f, err := l3.Encode(px, l3.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	path := fmt.Sprintf("l3/%d.l3", len(b.files))
	b.files[path] = f
	return path
}

// dial connects without saying anything.
func (b *bench) dial() *testClient {
	b.t.Helper()
	conn, err := net.Dial("unix", b.listener.Path())
	if err != nil {
		b.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	b.t.Cleanup(func() { conn.Close() })
	return &testClient{b: b, conn: conn, r: bufio.NewReader(conn)}
}

// open connects and takes a seat.
func (b *bench) open() *testClient {
	b.t.Helper()
	c := b.dial()
	c.want(Request{Op: OpOpen, PID: os.Getpid()}, "")
	return c
}

type testClient struct {
	b    *bench
	conn net.Conn
	r    *bufio.Reader
}

func (c *testClient) send(r Request) {
	c.b.t.Helper()
	if r.V == 0 {
		r.V = Version
	}
	if err := json.NewEncoder(c.conn).Encode(r); err != nil {
		c.b.t.Error(err)
	}
}

func (c *testClient) receive() (r Reply) {
	c.b.t.Helper()
	line, err := c.r.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		c.b.t.Fatalf("%v: %q", err, line)
	}
	return r
}

// want sends a request, and wants a reply of a kind; none is success.
func (c *testClient) want(r Request, kind string) Reply {
	c.b.t.Helper()
	c.send(r)
	reply := c.receive()
	if reply.Kind != kind || (reply.Error == "") != (kind == "") || reply.V != Version {
		c.b.t.Fatalf("%s: %+v, want kind %q", r.Op, reply, kind)
	}
	return reply
}

func (c *testClient) decode(paths ...string) Reply {
	c.b.t.Helper()
	return c.want(Request{Op: OpDecode, Paths: paths, Layout: "HWC"}, "")
}

// numbers reads a picture from the memory that the reply's handle names.
func (b *bench) numbers(r Reply, i int) []byte {
	b.t.Helper()
	p := r.Pictures[i]
	n := map[string]int{"uint8": 1, "uint16": 2, "float32": 4, "float16": 2}[p.Dtype]
	for _, side := range p.Shape {
		n *= side
	}
	got := make([]byte, n)
	if err := b.gpu.Read(binary.LittleEndian.Uint64(r.Handle)+uint64(p.Offset), got); err != nil {
		b.t.Fatalf("picture %d: %v", i, err)
	}
	return got
}

// expected is what the processor makes of a file.
func (b *bench) expected(path string, r Request) []byte {
	b.t.Helper()
	s, err := l3.Open(b.files[path], transcode.Limits{})
	if err != nil {
		b.t.Fatal(err)
	}
	channels, size := s.Mode.Channels(), s.Mode.Depth()/8
	pix := make([]byte, s.Width*s.Height*channels*size)
	to := l3.Interleaved(pix, s.Width, channels, size)
	if r.Layout == "CHW" {
		to = l3.Planar(pix, s.Width, s.Height, size)
	}
	if err := s.Decode(to); err != nil {
		b.t.Fatal(err)
	}
	if r.Dtype != "float32" {
		return pix
	}
	var out []byte
	for i := range len(pix) / size {
		c := i % channels
		if r.Layout == "CHW" {
			c = i / (s.Width * s.Height)
		}
		v, top := float32(pix[i*size]), 255.0
		if size == 2 {
			v, top = float32(binary.LittleEndian.Uint16(pix[2*i:])), 65535
		}
		mean, std := 0.0, 1.0
		if len(r.Mean) > 0 {
			mean, std = r.Mean[c%len(r.Mean)], r.Std[c%len(r.Std)]
		}
		f := float32(v*float32(1/(top*std))) + float32(-mean/std)
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
	}
	return out
}

// TestDecode wants every picture at its place, in every layout and type, and a place
// for each that is none of another's.
func TestDecode(t *testing.T) {
	b := newBench(t, 1, devicetest.Options{}, Options{})
	same := []string{b.add(transcode.ModeRGB, 40, 30), b.add(transcode.ModeRGB, 40, 30), b.add(transcode.ModeRGB, 40, 30)}
	mixed := []string{same[0], b.add(transcode.ModeL, 33, 21), b.add(transcode.ModeRGBA, 7, 50), b.add(transcode.ModeI16, 20, 20)}
	c := b.open()
	for _, r := range []Request{
		{Paths: same, Layout: "HWC"}, {Paths: same, Layout: "CHW", Dtype: "uint8"}, {Paths: mixed, Layout: "CHW"},
		{Paths: mixed, Layout: "HWC", Dtype: "float32"}, {Paths: mixed, Layout: "CHW", Dtype: "float32", Mean: []float64{.5}, Std: []float64{.25}},
		{Paths: same, Layout: "CHW", Dtype: "float32", Mean: []float64{.485, .456, .406}, Std: []float64{.229, .224, .225}},
	} {
		r.Op = OpDecode
		reply := c.want(r, "")
		var end int64
		for i, p := range reply.Pictures {
			if p.Error != "" {
				t.Fatalf("%+v: %s", r, p.Error)
			}
			got := b.numbers(reply, i)
			if !bytes.Equal(got, b.expected(r.Paths[i], r)) {
				t.Errorf("%s %s: %s has other numbers", r.Layout, r.Dtype, r.Paths[i])
			}
			if p.Offset < end || len(r.Paths) == len(same) && p.Offset != end {
				t.Errorf("%s begins at %d, the one before ends at %d", r.Paths[i], p.Offset, end)
			}
			end = p.Offset + int64(len(got))
		}
		c.want(Request{Op: OpRelease, Slot: reply.Slot, Generation: reply.Generation}, "")
	}
	if s := b.Stats(); s.Clients != 1 || s.Slots != 0 || s.Batches != 6 || s.Pictures != 21 || s.Failed != 0 || s.Bytes == 0 {
		t.Errorf("%+v", s)
	}
	c.want(Request{Op: OpClose}, "")
	if err := errors.Join(b.Close(), b.on.Close(), b.gpu.Check()); err != nil {
		t.Error(err)
	}
}

// TestPictures wants what is wrong with a picture to be told, and to cost no other.
func TestPictures(t *testing.T) {
	b := newBench(t, 1, devicetest.Options{}, Options{Limits: transcode.Limits{MaxPixels: 5000}})
	good, wide := b.add(transcode.ModeRGB, 40, 30), b.add(transcode.ModeL, 100, 60)
	deep := b.add(transcode.ModeI16, 8, 8)
	b.files["l3/short.l3"] = b.files[good][:len(b.files[good])-9]
	spoilt := bytes.Clone(b.files[good])
	spoilt[len(spoilt)-20] ^= 1
	b.files["l3/spoilt.l3"], b.files["l3/other.l3"] = spoilt, []byte("GIF89a, and so on, for some bytes")
	paths := []string{good, "l3/short.l3", "l3/spoilt.l3", "l3/other.l3", wide, "l3/none.l3", deep, "../secret", "/etc/passwd", "", "l3//x", "l3/\x00", ".pipefs/manifest", good}
	kinds := []string{"", KindTruncated, KindDamaged, KindDamaged, KindUnsupported, KindUnreadable, KindUnsupported, KindUnreadable, KindUnreadable, KindUnreadable, KindUnreadable, KindUnreadable, KindUnreadable, ""}
	c := b.open()
	r := Request{Op: OpDecode, Paths: paths, Layout: "HWC", Dtype: "uint8"}
	reply := c.want(r, "")
	for i, p := range reply.Pictures {
		if p.Kind != kinds[i] || (p.Error == "") != (p.Kind == "") {
			t.Errorf("%q: %q: %s; want %q", paths[i], p.Kind, p.Error, kinds[i])
		}
		if p.Error == "" && !bytes.Equal(b.numbers(reply, i), b.expected(paths[i], r)) {
			t.Errorf("%s has other samples", paths[i])
		}
	}
	// A batch without one good picture is one all the same.
	if reply := c.decode("l3/none.l3"); reply.Generation == 0 || reply.Pictures[0].Kind != KindUnreadable {
		t.Errorf("%+v", reply)
	}
	c.want(Request{Op: OpClose}, "")
}
