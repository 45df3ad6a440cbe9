package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/transcode"
)

// wantCut wants an error and then the end of the connection.
func (c *testClient) wantCut(kind, says string) {
	c.b.t.Helper()
	r := c.receive()
	if !r.Fatal || r.Kind != kind || !strings.Contains(r.Error, says) {
		c.b.t.Errorf("%+v, want %s: %s", r, kind, says)
	}
	if b, err := c.r.ReadByte(); err == nil {
		c.b.t.Errorf("the connection goes on: %q", b)
	}
}

// wantWorks wants the other seat to work.
func (b *bench) wantWorks(path string) {
	b.t.Helper()
	c := b.open()
	c.decode(path)
	c.want(Request{Op: OpClose}, "")
}

// TestWrongRequests wants each to be told apart, before anything is done about it.
func TestWrongRequests(t *testing.T) {
	b := newBench(t, 2, devicetest.Options{}, Options{})
	path := b.add(transcode.ModeRGB, 40, 30)
	pid := os.Getpid()
	for says, r := range map[string]Request{
		"version 1 of the protocol, not 9":     {V: 9, Op: OpOpen, PID: pid},
		`"decode" before open`:                 {Op: OpDecode, Paths: []string{path}},
		`"close" before open`:                  {Op: OpClose},
		"are in different PID namespaces":      {Op: OpOpen, PID: pid + 1},
		fmt.Sprintf("process 0 is %d to", pid): {Op: OpOpen},
	} {
		c := b.dial()
		c.send(r)
		kind := KindRequest
		if r.Op == OpOpen && r.V == 0 {
			kind = KindDenied
		}
		c.wantCut(kind, says)
	}
	c := b.open()
	many := make([]string, maxPictures+1)
	for says, r := range map[string]Request{
		"a batch of 0 pictures":    {Layout: "HWC"},
		"a batch of 4097 pictures": {Layout: "HWC", Paths: many},
		`layout "WHC"`:             {Layout: "WHC", Paths: []string{path}},
		`dtype "float64"`:          {Layout: "HWC", Dtype: "float64", Paths: []string{path}},
		"are for float32":          {Layout: "HWC", Mean: []float64{1}, Paths: []string{path}},
		"4 channels at most":       {Layout: "HWC", Dtype: "float32", Std: make([]float64, 5), Paths: []string{path}},
		"std has to be other":      {Layout: "HWC", Dtype: "float32", Std: []float64{1, 0, 1}, Paths: []string{path}},
	} {
		r.Op = OpDecode
		if reply := c.want(r, KindRequest); !strings.Contains(reply.Error, says) || reply.Fatal {
			t.Errorf("%+v, want %s", reply, says)
		}
	}
	c.decode(path)
	c.send(Request{Op: OpOpen, PID: pid})
	c.wantCut(KindRequest, "open twice")
	b.wantWorks(path)
}

// TestLarge wants what does not fit a slot to be refused, with what to do about it.
func TestLarge(t *testing.T) {
	b := newBench(t, 1, devicetest.Options{}, Options{})
	path := b.add(transcode.ModeRGB, 640, 480)
	c := b.open()
	r := Request{Op: OpDecode, Paths: []string{path, path, path}, Layout: "HWC"}
	reply := c.want(r, KindLarge)
	if !strings.Contains(reply.Error, "takes 2764800 bytes, and a slot has 2097152") || !strings.Contains(reply.Error, "--gpu-memory times 2") {
		t.Error(reply.Error)
	}
	// So many files that they would not fit this process are not read.
	b.files["l3/big.l3"] = make([]byte, 3<<20)
	r.Paths = []string{path, "l3/big.l3", "l3/big.l3"}
	reply = c.want(r, "")
	unread := 0
	for _, p := range reply.Pictures[1:] {
		if p.Kind == KindUnreadable && strings.Contains(p.Error, "are left for those of the batch") {
			unread++
		}
	}
	if unread != 1 || reply.Pictures[0].Error != "" {
		t.Errorf("%+v", reply.Pictures)
	}
	c.want(Request{Op: OpClose}, "")
}

// TestHostile wants clients that do not speak the protocol to be cut off, and the
// others to be served meanwhile.
func TestHostile(t *testing.T) {
	b := newBench(t, 1, devicetest.Options{}, Options{patience: 300 * time.Millisecond})
	path := b.add(transcode.ModeRGB, 40, 30)

	silent := b.dial()
	began := time.Now()
	if _, err := silent.r.ReadByte(); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	for says, text := range map[string]string{
		"cannot be read":             "GET / HTTP/1.1\n",
		"longer than 1048576 bytes":  strings.Repeat("x", maxLine+2),
		"cannot be read: json: cann": `{"v":"one"}` + "\n",
	} {
		c := b.dial()
		go func() { _, _ = c.conn.Write([]byte(text)) }()
		c.wantCut(KindRequest, says)
		c.conn.Close()
	}
	b.wantWorks(path)

	// One that asks and never reads has its replies pile up here no further than its
	// socket holds.
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	before := memory.HeapAlloc
	flood := b.dial()
	line, _ := json.Marshal(Request{V: Version, Op: OpRelease, Slot: 7, Generation: 1})
	flood.send(Request{Op: OpOpen, PID: os.Getpid()})
	for range 200_000 {
		if _, err := flood.conn.Write(append(line, '\n')); err != nil {
			break
		}
	}
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > before+64<<20 {
		t.Errorf("%d bytes more", memory.HeapAlloc-before)
	}
	flood.conn.Close()
}

// TestFlood wants no more connections to be kept than there is room for.
func TestFlood(t *testing.T) {
	b := newBench(t, 1, devicetest.Options{}, Options{})
	path := b.add(transcode.ModeRGB, 40, 30)
	c := b.open()
	var refused int
	for i := range 3 * maxQueue {
		conn := b.dial()
		patience := 20 * time.Millisecond // those that are let in hear nothing
		if i >= maxQueue {
			patience = 20 * time.Second
		}
		_ = conn.conn.SetReadDeadline(time.Now().Add(patience))
		if line, err := conn.r.ReadString('\n'); err == nil && strings.Contains(line, "too many connections") {
			refused++
		}
	}
	if refused != 2*maxQueue {
		t.Errorf("%d of %d were refused", refused, 3*maxQueue)
	}
	c.decode(path)
	c.want(Request{Op: OpClose}, "")
}

// TestOthersMayNot wants another user to be refused by name.
func TestOthersMayNot(t *testing.T) {
	b := newBench(t, 1, devicetest.Options{}, Options{allowed: func(uint32) bool { return false }})
	b.dial().wantCut(KindDenied, "may not control this mount")
	info, err := os.Stat(b.listener.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestNoGPU wants every client to be told why, and the log once.
func TestNoGPU(t *testing.T) {
	absent := fmt.Errorf("GPU 0: %w", &device.Error{Call: "dlopen", Text: "libcuda.so.1: no such file", Kind: device.ErrNoDriver})
	b := newBench(t, 1, devicetest.Options{}, Options{GPU: func() (*l3gpu.Backend, error) { return nil, absent }})
	for range 3 {
		c := b.dial()
		c.send(Request{Op: OpOpen, PID: os.Getpid()})
		c.wantCut(KindGPU, "no NVIDIA driver")
	}
	if n := strings.Count(b.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d lines:\n%s", n, b.log)
	}
}

// TestGPUFails wants a batch that the GPU fails at to be refused, and the slot to be
// free for another.
func TestGPUFails(t *testing.T) {
	b := newBench(t, 1, devicetest.Options{LoseAt: 2}, Options{})
	path := b.add(transcode.ModeRGB, 40, 30)
	c := b.open()
	c.decode(path)
	for range 2 * SlotsEach {
		if r := c.want(Request{Op: OpDecode, Paths: []string{path}, Layout: "HWC"}, KindGPU); !strings.Contains(r.Error, "the GPU is lost") || r.Fatal {
			t.Errorf("%+v", r)
		}
	}
	if _, err := b.on.NewTensor(1 << 20); !errors.Is(err, l3gpu.ErrLost) {
		t.Errorf("%v", err)
	}
	c.want(Request{Op: OpClose}, "")
}

// TestExportFails wants memory that cannot be shared to be given back.
func TestExportFails(t *testing.T) {
	b := newBench(t, 1, devicetest.Options{FailCall: "Export", Kind: errors.New("CUDA_ERROR_NOT_SUPPORTED")}, Options{})
	path := b.add(transcode.ModeRGB, 40, 30)
	c := b.open()
	for range 2 * SlotsEach {
		if r := c.want(Request{Op: OpDecode, Paths: []string{path}, Layout: "HWC"}, KindGPU); !strings.Contains(r.Error, "memory to share: ") {
			t.Errorf("%+v", r)
		}
	}
	c.want(Request{Op: OpClose}, "")
	if err := errors.Join(b.Close(), b.on.Close(), b.gpu.Check()); err != nil {
		t.Error(err)
	}
}

// TestServe wants what cannot be to be refused at once.
func TestServe(t *testing.T) {
	for _, o := range []Options{{Clients: 0, SlotBytes: 2 << 20}, {Clients: 1, SlotBytes: 1 << 20}} {
		if s, err := Serve(t.TempDir()+"/s", o); err == nil {
			s.Close()
			t.Errorf("%+v is taken", o)
		}
	}
	if _, err := Serve("/nowhere/s", Options{Clients: 1, SlotBytes: 2 << 20}); !errors.Is(err, os.ErrNotExist) {
		var op *net.OpError
		if !errors.As(err, &op) {
			t.Error(err)
		}
	}
	if n := SlotBytes(128<<20, 2); n != 20<<20 || SlotBytes(MemoryFor(5), 5) != 2<<20 || SlotBytes(MemoryFor(5)-1, 5) != 0 {
		t.Errorf("slots of %d bytes", n)
	}
}
