package driver

import (
	"fmt"
	"unsafe"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
)

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
