// Package driver is an NVIDIA GPU as a device.Device, through libcuda.so.1, the
// library that comes with the driver. It is opened at run time: nothing of CUDA is
// needed to build, and nothing else of it to run.
//
// # Nouns
//
// The api is the table of libcuda's functions. The context is the state of a device in a
// process. This package uses the primary context, which it shares with other users of CUDA in
// the process. libcuda has a current context for each thread of the operating system, so that
// every call here first makes ours the current one.
//
// # Memory
//
// Pointers to Go memory are handed over only for the time of a call. Copies that go on
// afterwards are between memory of the driver on both sides.
package driver

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
)

// sonames are tried in order. The first is what a driver installs; the second is
// where it is in containers and in WSL, which do not always have it on the path.
var sonames = []string{"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"}

// result is CUresult.
type result = int32

// api has the functions of libcuda, each under its own name, with the types of
// cuda.h: a CUdevice is an int32, a CUdeviceptr a uint64, size_t and handles are
// uintptr. A pointer to unsafe.Pointer is where libcuda writes an address.
type api struct {
	Init             func(flags uint32) result                                                                                                  `cuda:"cuInit"`
	DriverGetVersion func(version *int32) result                                                                                                `cuda:"cuDriverGetVersion"`
	GetErrorName     func(code result, name *unsafe.Pointer) result                                                                             `cuda:"cuGetErrorName"`
	GetErrorString   func(code result, text *unsafe.Pointer) result                                                                             `cuda:"cuGetErrorString"`
	DeviceGetCount   func(count *int32) result                                                                                                  `cuda:"cuDeviceGetCount"`
	DeviceGet        func(dev *int32, index int32) result                                                                                       `cuda:"cuDeviceGet"`
	DeviceGetName    func(name *byte, n int32, dev int32) result                                                                                `cuda:"cuDeviceGetName"`
	DeviceAttribute  func(value *int32, attribute int32, dev int32) result                                                                      `cuda:"cuDeviceGetAttribute"`
	PrimaryRetain    func(ctx *uintptr, dev int32) result                                                                                       `cuda:"cuDevicePrimaryCtxRetain"`
	PrimaryRelease   func(dev int32) result                                                                                                     `cuda:"cuDevicePrimaryCtxRelease_v2"`
	CtxSetCurrent    func(ctx uintptr) result                                                                                                   `cuda:"cuCtxSetCurrent"`
	CtxPriorities    func(least, greatest *int32) result                                                                                        `cuda:"cuCtxGetStreamPriorityRange"`
	ModuleLoad       func(m *uintptr, image *byte, n uint32, options *int32, values *uintptr) result                                            `cuda:"cuModuleLoadDataEx"`
	ModuleUnload     func(m uintptr) result                                                                                                     `cuda:"cuModuleUnload"`
	ModuleFunction   func(f *uintptr, m uintptr, name string) result                                                                            `cuda:"cuModuleGetFunction"`
	MemAlloc         func(p *uint64, n uintptr) result                                                                                          `cuda:"cuMemAlloc_v2"`
	MemFree          func(p uint64) result                                                                                                      `cuda:"cuMemFree_v2"`
	MemGetInfo       func(free, total *uintptr) result                                                                                          `cuda:"cuMemGetInfo_v2"`
	MemHostAlloc     func(p *unsafe.Pointer, n uintptr, flags uint32) result                                                                    `cuda:"cuMemHostAlloc"`
	MemFreeHost      func(p unsafe.Pointer) result                                                                                              `cuda:"cuMemFreeHost"`
	MemcpyHtoDAsync  func(dst uint64, src unsafe.Pointer, n, stream uintptr) result                                                             `cuda:"cuMemcpyHtoDAsync_v2"`
	MemcpyDtoHAsync  func(dst unsafe.Pointer, src uint64, n, stream uintptr) result                                                             `cuda:"cuMemcpyDtoHAsync_v2"`
	StreamCreate     func(s *uintptr, flags uint32, priority int32) result                                                                      `cuda:"cuStreamCreateWithPriority"`
	StreamDestroy    func(s uintptr) result                                                                                                     `cuda:"cuStreamDestroy_v2"`
	StreamSync       func(s uintptr) result                                                                                                     `cuda:"cuStreamSynchronize"`
	EventCreate      func(e *uintptr, flags uint32) result                                                                                      `cuda:"cuEventCreate"`
	EventRecord      func(e, stream uintptr) result                                                                                             `cuda:"cuEventRecord"`
	EventSync        func(e uintptr) result                                                                                                     `cuda:"cuEventSynchronize"`
	EventElapsed     func(ms *float32, begin, end uintptr) result                                                                               `cuda:"cuEventElapsedTime"`
	EventDestroy     func(e uintptr) result                                                                                                     `cuda:"cuEventDestroy_v2"`
	LaunchKernel     func(f uintptr, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, stream uintptr, params, extra *uintptr) result `cuda:"cuLaunchKernel"`
}

// library is libcuda, opened once and never closed: its threads outlive a call.
var library struct {
	once sync.Once
	api  *api
	err  error
}

func load() (*api, error) {
	library.once.Do(func() { library.api, library.err = open(sonames) })
	return library.api, library.err
}

// open opens the first of the libraries that is there.
func open(names []string) (*api, error) {
	// A thread is told why its own call failed, and the loader is asked after the call.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var first error
	for _, name := range names {
		lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return bind(lib, name)
		}
		if first == nil {
			first = err
		}
	}
	return nil, &device.Error{Call: "dlopen", Text: first.Error(), Kind: device.ErrNoDriver}
}

// bind looks up all functions. A very old driver does not have them all.
func bind(lib uintptr, name string) (*api, error) {
	a := new(api)
	v := reflect.ValueOf(a).Elem()
	for i := range v.NumField() {
		symbol := v.Type().Field(i).Tag.Get("cuda")
		address, err := purego.Dlsym(lib, symbol)
		if err != nil {
			return nil, &device.Error{
				Call: symbol, Text: name + " does not have it: install a driver for CUDA 12.2 or newer", Kind: device.ErrNoDriver,
			}
		}
		purego.RegisterFunc(v.Field(i).Addr().Interface(), address)
	}
	return a, nil
}

// The results of libcuda that are looked at, as cuda.h numbers them.
const (
	success        result = 0
	outOfMemory    result = 2
	notInitialised result = 3
	deinitialised  result = 4
	stubLibrary    result = 34
	oldDriver      result = 35
	unavailable    result = 46
	noDevice       result = 100
	invalidDevice  result = 101
	contextGone    result = 709
	systemNotReady result = 802
	driverMismatch result = 803
	notCompatible  result = 804
	unknownProblem result = 999
	eccError       result = 214
	nvlinkError    result = 220
	containedError result = 226
	illegalAddress result = 700
	launchTimeout  result = 702
	deviceAssert   result = 710
	launchFailed   result = 719
	hardwareStack  result = 714
	illegalCode    result = 715
	misaligned     result = 716
	wrongSpace     result = 717
	wrongPC        result = 718
	externalDevice result = 911
)

// kindOf is the kind of a result. What cuda.h says of the lost ones is "leaves the
// process in an inconsistent state": all later calls fail in the same way.
func kindOf(code result) error {
	switch code {
	case outOfMemory:
		return device.ErrMemory
	case stubLibrary, oldDriver, systemNotReady, driverMismatch, notCompatible, notInitialised:
		return device.ErrNoDriver
	case noDevice, invalidDevice, unavailable:
		return device.ErrNoDevice
	case deinitialised, eccError, nvlinkError, containedError, illegalAddress, launchTimeout, contextGone, deviceAssert,
		hardwareStack, illegalCode, misaligned, wrongSpace, wrongPC, launchFailed, externalDevice, unknownProblem:
		return device.ErrLost
	}
	return nil
}

// check makes an error of a result.
func (a *api) check(call string, code result) error {
	if code == success {
		return nil
	}
	e := &device.Error{Call: call, Code: a.describe(a.GetErrorName, code), Text: a.describe(a.GetErrorString, code), Kind: kindOf(code)}
	if e.Code == "" {
		e.Code = fmt.Sprintf("error %d", code)
	}
	return e
}

func (a *api) describe(ask func(result, *unsafe.Pointer) result, code result) string {
	var p unsafe.Pointer
	if ask(code, &p) != success || p == nil {
		return ""
	}
	return cString(p)
}

// cString copies a string that ends with a zero byte.
func cString(p unsafe.Pointer) string {
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
