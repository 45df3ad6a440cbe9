package driver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
)

// The attributes of a device that are asked for: CUdevice_attribute.
const (
	attrProcessors  = 16
	attrCopyEngines = 40
	attrMajor       = 75
	attrMinor       = 76
)

// gpu is a device.Device.
type gpu struct {
	api  *api
	dev  int32
	ctx  uintptr
	info device.Info
	// least and greatest are the bounds of priorities: greater ones are smaller.
	least, greatest int32
	close           sync.Once
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
	err := g.do("cuCtxGetStreamPriorityRange", func() result { return a.CtxPriorities(&g.least, &g.greatest) })
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
	var total uintptr
	if err := a.check("cuDeviceTotalMem", a.DeviceTotalMem(&total, g.dev)); err != nil {
		return err
	}
	g.info.Driver, g.info.Name, g.info.Memory = int(version), text, int64(total)
	for attribute, to := range map[int32]*int{
		attrMajor: &g.info.Major, attrMinor: &g.info.Minor, attrProcessors: &g.info.Processors,
		attrCopyEngines: &g.info.CopyEngines,
	} {
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
