package driver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebitengine/purego"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/fakecuda"
)

// stub is the library of package fakecuda.
type stub struct {
	*api
	live, retained func() int32
	fail           func(call string, code int32)
}

var compiled struct {
	once sync.Once
	stub stub
	err  error
}

// newStub compiles the library once, and checks after the test that all was given
// back.
func newStub(t *testing.T) stub {
	t.Helper()
	compiled.once.Do(func() {
		// The library stays open when the directory is gone.
		path := filepath.Join(t.TempDir(), "libcuda.so")
		if compiled.err = fakecuda.Compile(path); compiled.err != nil {
			return
		}
		lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			compiled.err = err
			return
		}
		s := &compiled.stub
		if s.api, compiled.err = bind(lib, path); compiled.err != nil {
			return
		}
		purego.RegisterLibFunc(&s.live, lib, "stub_live")
		purego.RegisterLibFunc(&s.retained, lib, "stub_retained")
		purego.RegisterLibFunc(&s.fail, lib, "stub_fail")
	})
	if compiled.err != nil {
		t.Fatal(compiled.err)
	}
	s := compiled.stub
	s.fail("", 0)
	t.Cleanup(func() {
		s.fail("", 0)
		if n, r := s.live(), s.retained(); n != 0 || r != 0 {
			t.Errorf("%d things and %d contexts were not given back", n, r)
		}
	})
	return s
}

// TestAbsent wants the error of a machine without a driver to be told apart.
func TestAbsent(t *testing.T) {
	_, err := open([]string{"libcuda-that-nobody-has.so.1"})
	if !errors.Is(err, device.ErrNoDriver) || !strings.Contains(err.Error(), "libcuda-that-nobody-has") {
		t.Errorf("%v", err)
	}
	// Whatever this machine has, it is no crash.
	if d, err := Open(1 << 20); err == nil {
		d.Close()
		t.Error("GPU 1048576 is there")
	} else if !errors.Is(err, device.ErrNoDriver) && !errors.Is(err, device.ErrNoDevice) {
		t.Errorf("%v", err)
	}
}

// TestOtherLibrary wants a library that is not CUDA to be refused by name.
func TestOtherLibrary(t *testing.T) {
	if _, err := open([]string{"libc.so.6"}); !errors.Is(err, device.ErrNoDriver) || !strings.Contains(err.Error(), "cuInit") {
		t.Errorf("%v", err)
	}
}

// must fails a test at the first error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		testenv.Must(t, err)
		return v
	}
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	testenv.Must(t, errors.Join(errs...))
}

const addPTX = "// A comment.\n\n.version 7.0\n.entry add"

// TestCalls does all that there is once, on several goroutines.
func TestCalls(t *testing.T) {
	s := newStub(t)
	d := must[device.Device](t)(s.open(0))
	defer d.Close()
	want := device.Info{Name: "Stub 7", Major: 8, Minor: 6, Driver: 12040}
	if d.Info() != want || d.Info().CUDA() != "12.4" {
		t.Errorf("%+v", d.Info())
	}
	if free, total, err := d.MemoryInfo(); err != nil || free != 11 || total != 12 {
		t.Errorf("%d of %d: %v", free, total, err)
	}
	m := must[device.Module](t)(d.Load([]byte(addPTX)))
	f := must[device.Function](t)(m.Function("add"))
	t.Run("at once", func(t *testing.T) {
		for i := range 8 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				roundTrip(t, d, f, byte(i))
			})
		}
	})
	check(t, m.Free(), d.Close(), d.Close())
}

// roundTrip sends bytes there, adds to them, and fetches them.
func roundTrip(t *testing.T, d device.Device, f device.Function, seed byte) {
	const n = 1000
	st := must[device.Stream](t)(d.NewStream())
	begin, end := must[device.Event](t)(d.NewEvent()), must[device.Event](t)(d.NewEvent())
	mem := must[device.Memory](t)(d.Alloc(n))
	host := must[device.HostMemory](t)(d.AllocHost(2 * n))
	for i := range n {
		host.Bytes()[i] = byte(i) + seed
	}
	params := binary.LittleEndian.AppendUint64(nil, mem.Address())
	params = binary.LittleEndian.AppendUint32(params, n)
	params = binary.LittleEndian.AppendUint32(params, 2)
	check(t,
		st.Record(begin), st.Upload(mem.Address(), host, 0, n),
		st.Launch(f, device.Launch{Grid: 3, Block: 2, Params: params}),
		st.Download(host, n, mem.Address(), n), st.Record(end), end.Wait(),
	)
	for i, v := range host.Bytes()[n:] {
		w := byte(i) + seed + 2*3*2
		if v != w {
			t.Errorf("byte %d is %d, want %d", i, v, w)
			break
		}
	}
	if took, err := end.Since(begin); err != nil || took != 4*250*time.Microsecond {
		t.Errorf("%v, %v", took, err)
	}
	for _, err := range []error{st.Upload(mem.Address(), host, 2*n-1, 2), st.Download(host, -1, mem.Address(), 1)} {
		if err == nil {
			t.Error("a copy beyond the host memory is taken")
		}
	}
	check(t, st.Wait(), mem.Free(), mem.Free(), host.Free(), host.Free(), begin.Free(), end.Free(), st.Free())
}

// TestErrors wants the call, the driver's words and the kind in each error.
func TestErrors(t *testing.T) {
	s := newStub(t)
	if _, err := s.open(1); !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), "there are 1,") {
		t.Errorf("%v", err)
	}
	d := must[device.Device](t)(s.open(0))
	defer d.Close()
	if _, err := d.Alloc(1 << 40); !errors.Is(err, device.ErrMemory) || !strings.Contains(err.Error(), "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory") {
		t.Errorf("%v", err)
	}
	if _, err := d.Load([]byte("nonsense")); err == nil || !strings.Contains(err.Error(), "INVALID_PTX") || !strings.Contains(err.Error(), "no version") {
		t.Errorf("%v", err)
	}
	s.fail("cuMemGetInfo_v2", 12345)
	if _, _, err := d.MemoryInfo(); err == nil || !strings.Contains(err.Error(), "cuMemGetInfo: error 12345") {
		t.Errorf("%v", err)
	}
	s.fail("cuLaunchKernel", 719)
	m := must[device.Module](t)(d.Load([]byte(addPTX)))
	f := must[device.Function](t)(m.Function("add"))
	st := must[device.Stream](t)(d.NewStream())
	if err := st.Launch(f, device.Launch{Grid: 1, Block: 1, Params: make([]byte, 16)}); !errors.Is(err, device.ErrLost) {
		t.Errorf("%v", err)
	}
	if err := st.Wait(); !errors.Is(err, device.ErrLost) {
		t.Errorf("after a lost device: %v", err)
	}
	s.fail("", 0)
	check(t, st.Free(), m.Free())
}

// TestOpenFails wants nothing to stay behind when opening fails.
func TestOpenFails(t *testing.T) {
	s := newStub(t)
	for _, call := range []string{"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxGetStreamPriorityRange"} {
		s.fail(call, 999)
		_, err := s.open(0)
		if !errors.Is(err, device.ErrLost) || !bytes.Contains([]byte(err.Error()), []byte(strings.TrimSuffix(call, "_v2"))) {
			t.Errorf("%s: %v", call, err)
		}
	}
}
