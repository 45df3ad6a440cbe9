package driver

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
)

// The options of cuModuleLoadDataEx that are used: CUjit_option.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
	jitLogBytes     = 8 << 10
)

type module struct {
	gpu    *gpu
	handle uintptr
}

// Load implements [device.Device]. The driver keeps what it compiled in
// ~/.nv/ComputeCache, so that only the first time takes long.
func (g *gpu) Load(ptx []byte) (device.Module, error) {
	m := &module{gpu: g}
	image := append(bytes.Clone(ptx), 0)
	log := make([]byte, jitLogBytes)
	// An option's value stands in the place of a pointer, so that these hold
	// addresses as numbers; pinned, they stay true.
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&log[0])
	options := []int32{jitErrorLog, jitErrorLogSize}
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log) - 1)}
	err := g.do("cuModuleLoadDataEx", func() result {
		return g.api.ModuleLoad(&m.handle, &image[0], uint32(len(options)), &options[0], &values[0])
	})
	if err != nil {
		said, _, _ := strings.Cut(string(log), "\x00")
		var e *device.Error
		if said = strings.Join(strings.Fields(said), " "); said != "" && errors.As(err, &e) {
			e.Text += ": " + said
		}
		return nil, err
	}
	return m, nil
}

func (m *module) Function(name string) (device.Function, error) {
	f := new(function)
	err := m.gpu.do("cuModuleGetFunction", func() result { return m.gpu.api.ModuleFunction(&f.handle, m.handle, name) })
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *module) Free() error {
	return m.gpu.do("cuModuleUnload", func() result { return m.gpu.api.ModuleUnload(m.handle) })
}

type function struct{ handle uintptr }

// The words of the list by which cuLaunchKernel is told of packed parameters.
const (
	launchParamEnd    = 0
	launchParamBuffer = 1
	launchParamSize   = 2
)

// Launch implements [device.Stream]. libcuda copies the parameters before it
// returns.
func (s *stream) Launch(f device.Function, l device.Launch) error {
	var extra *uintptr
	var pin runtime.Pinner
	defer pin.Unpin()
	if len(l.Params) > 0 {
		size := new(uintptr)
		*size = uintptr(len(l.Params))
		pin.Pin(size)
		pin.Pin(&l.Params[0])
		list := []uintptr{
			launchParamBuffer, uintptr(unsafe.Pointer(&l.Params[0])),
			launchParamSize, uintptr(unsafe.Pointer(size)), launchParamEnd,
		}
		extra = &list[0]
	}
	return s.gpu.do("cuLaunchKernel", func() result {
		return s.gpu.api.LaunchKernel(f.(*function).handle, l.Grid, 1, 1, l.Block, 1, 1, 0, s.handle, nil, extra)
	})
}

const (
	// streamNonBlocking keeps a stream apart from the default one, for which other
	// users of the context may wait.
	streamNonBlocking = 1
	// eventBlockingSync lets who waits sleep instead of spinning: the cores belong
	// to those who train.
	eventBlockingSync = 1
)

type stream struct {
	gpu    *gpu
	handle uintptr
}

// NewStream implements [device.Device].
func (g *gpu) NewStream() (device.Stream, error) {
	s := &stream{gpu: g}
	err := g.do("cuStreamCreateWithPriority", func() result { return g.api.StreamCreate(&s.handle, streamNonBlocking, g.priority) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *stream) Upload(dst uint64, src device.HostMemory, offset, n int64) error {
	const call = "cuMemcpyHtoDAsync"
	p, err := src.(*hostMemory).at(call, offset, n)
	if err != nil || n == 0 {
		return err
	}
	return s.gpu.do(call, func() result { return s.gpu.api.MemcpyHtoDAsync(dst, p, uintptr(n), s.handle) })
}

func (s *stream) Download(dst device.HostMemory, offset int64, src uint64, n int64) error {
	const call = "cuMemcpyDtoHAsync"
	p, err := dst.(*hostMemory).at(call, offset, n)
	if err != nil || n == 0 {
		return err
	}
	return s.gpu.do(call, func() result { return s.gpu.api.MemcpyDtoHAsync(p, src, uintptr(n), s.handle) })
}

func (s *stream) Record(e device.Event) error {
	return s.gpu.do("cuEventRecord", func() result { return s.gpu.api.EventRecord(e.(*event).handle, s.handle) })
}

func (s *stream) Wait() error {
	return s.gpu.do("cuStreamSynchronize", func() result { return s.gpu.api.StreamSync(s.handle) })
}

func (s *stream) Free() error {
	return s.gpu.do("cuStreamDestroy", func() result { return s.gpu.api.StreamDestroy(s.handle) })
}

type event struct {
	gpu    *gpu
	handle uintptr
}

// NewEvent implements [device.Device].
func (g *gpu) NewEvent() (device.Event, error) {
	e := &event{gpu: g}
	err := g.do("cuEventCreate", func() result { return g.api.EventCreate(&e.handle, eventBlockingSync) })
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (e *event) Wait() error {
	return e.gpu.do("cuEventSynchronize", func() result { return e.gpu.api.EventSync(e.handle) })
}

func (e *event) Since(earlier device.Event) (time.Duration, error) {
	var ms float32
	err := e.gpu.do("cuEventElapsedTime", func() result { return e.gpu.api.EventElapsed(&ms, earlier.(*event).handle, e.handle) })
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

func (e *event) Free() error {
	return e.gpu.do("cuEventDestroy", func() result { return e.gpu.api.EventDestroy(e.handle) })
}
