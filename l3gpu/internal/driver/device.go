package driver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
)

// The attributes of a device that are asked for: CUdevice_attribute.
const (
	attrMajor = 75
	attrMinor = 76
)

// gpu is a device.Device.
type gpu struct {
	api  *api
	dev  int32
	ctx  uintptr
	info device.Info
	// priority is the greatest one of a stream.
	priority int32
	close    sync.Once
}

// Open opens a device by its number, from 0. CUDA_VISIBLE_DEVICES hides some.
func Open(index int) (device.Device, error) {
	a, err := load()
	if err != nil {
		return nil, err
	}
	return a.open(index)
}

func (a *api) open(index int) (device.Device, error) {
	g := &gpu{api: a, info: device.Info{Index: index}}
	// More than once does no harm.
	if err := a.check("cuInit", a.Init(0)); err != nil {
		return nil, err
	}
	var count int32
	if err := a.check("cuDeviceGetCount", a.DeviceGetCount(&count)); err != nil {
		return nil, err
	}
	if index < 0 || index >= int(count) {
		return nil, &device.Error{Call: "cuDeviceGetCount", Text: fmt.Sprintf("there are %d, counted from 0", count), Kind: device.ErrNoDevice}
	}
	if err := a.check("cuDeviceGet", a.DeviceGet(&g.dev, int32(index))); err != nil {
		return nil, err
	}
	if err := g.ask(); err != nil {
		return nil, err
	}
	if err := a.check("cuDevicePrimaryCtxRetain", a.PrimaryRetain(&g.ctx, g.dev)); err != nil {
		return nil, err
	}
	err := g.do("cuCtxGetStreamPriorityRange", func() result { return a.CtxPriorities(nil, &g.priority) })
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// ask fills in what is known of the device.
func (g *gpu) ask() error {
	a := g.api
	var version int32
	if err := a.check("cuDriverGetVersion", a.DriverGetVersion(&version)); err != nil {
		return err
	}
	name := make([]byte, 256)
	if err := a.check("cuDeviceGetName", a.DeviceGetName(&name[0], int32(len(name)), g.dev)); err != nil {
		return err
	}
	text, _, _ := strings.Cut(string(name), "\x00")
	g.info.Driver, g.info.Name = int(version), text
	for attribute, to := range map[int32]*int{attrMajor: &g.info.Major, attrMinor: &g.info.Minor} {
		var v int32
		if err := a.check("cuDeviceGetAttribute", a.DeviceAttribute(&v, attribute, g.dev)); err != nil {
			return err
		}
		*to = int(v)
	}
	return nil
}

// do makes a call in the context. The goroutine stays on its thread between the
// two, and whoever uses the thread next makes a context current as well.
func (g *gpu) do(call string, f func() result) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.api.check("cuCtxSetCurrent", g.api.CtxSetCurrent(g.ctx)); err != nil {
		return err
	}
	return g.api.check(call, f())
}

// Info implements [device.Device].
func (g *gpu) Info() device.Info { return g.info }

// MemoryInfo implements [device.Device].
func (g *gpu) MemoryInfo() (free, total int64, err error) {
	var f, t uintptr
	err = g.do("cuMemGetInfo", func() result { return g.api.MemGetInfo(&f, &t) })
	return int64(f), int64(t), err
}

// Close implements [device.Device]. The context goes, and all that is in it.
func (g *gpu) Close() error {
	var err error
	g.close.Do(func() {
		err = g.api.check("cuDevicePrimaryCtxRelease", g.api.PrimaryRelease(g.dev))
	})
	return err
}

// hostPortable makes host memory known in every context: CU_MEMHOSTALLOC_PORTABLE.
const hostPortable = 1

// memory is a device.Memory. A second Free does nothing.
type memory struct {
	gpu     *gpu
	address uint64
	freed   atomic.Bool
}

// Alloc implements [device.Device].
func (g *gpu) Alloc(size int64) (device.Memory, error) {
	m := &memory{gpu: g}
	err := g.do("cuMemAlloc", func() result { return g.api.MemAlloc(&m.address, uintptr(size)) })
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *memory) Address() uint64 { return m.address }

func (m *memory) Free() error {
	if m.freed.Swap(true) {
		return nil
	}
	return m.gpu.do("cuMemFree", func() result { return m.gpu.api.MemFree(m.address) })
}

// hostMemory is a device.HostMemory. It is not Go's: the collector neither moves
// nor frees it.
type hostMemory struct {
	gpu   *gpu
	p     unsafe.Pointer
	size  int64
	freed atomic.Bool
}

// AllocHost implements [device.Device].
func (g *gpu) AllocHost(size int64) (device.HostMemory, error) {
	m := &hostMemory{gpu: g, size: size}
	err := g.do("cuMemHostAlloc", func() result { return g.api.MemHostAlloc(&m.p, uintptr(size), hostPortable) })
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *hostMemory) Bytes() []byte { return unsafe.Slice((*byte)(m.p), m.size) }

func (m *hostMemory) Free() error {
	if m.freed.Swap(true) {
		return nil
	}
	return m.gpu.do("cuMemFreeHost", func() result { return m.gpu.api.MemFreeHost(m.p) })
}

// at is the address of n bytes, which have to be within the memory: libcuda would
// write anywhere.
func (m *hostMemory) at(call string, offset, n int64) (unsafe.Pointer, error) {
	if offset < 0 || n < 0 || offset > m.size-n {
		return nil, &device.Error{Call: call, Text: "bytes outside of the host memory"}
	}
	return unsafe.Add(m.p, offset), nil
}
