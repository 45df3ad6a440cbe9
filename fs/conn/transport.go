package conn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// Transport is how requests come, beside INIT, FORGET and INTERRUPT, which always come
// through /dev/fuse.
type Transport uint8

// The transports.
const (
	// Auto is Ring where the kernel permits it, and Device elsewhere.
	Auto Transport = iota
	// Device is /dev/fuse.
	Device
	// Ring is io_uring: Linux 6.14 where root has turned it on.
	Ring
)

var transports = []string{Auto: "auto", Device: "fuse", Ring: "uring"}

// String is the word that UnmarshalText takes.
func (t Transport) String() string { return transports[t] }

// Medium names what requests come through.
func (t Transport) Medium() string {
	if t == Ring {
		return "io_uring"
	}
	return "/dev/fuse"
}

// MarshalText implements [encoding.TextMarshaler].
func (t Transport) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Transport) UnmarshalText(text []byte) error {
	for i, word := range transports {
		if word == string(text) {
			*t = Transport(i)
			return nil
		}
	}
	return fmt.Errorf("%q: want auto, fuse or uring", text)
}

const (
	// RingSwitch is the file that says whether the kernel offers Ring.
	RingSwitch = "/sys/module/fuse/parameters/enable_uring"
	// RingOn is the line by which root turns it on, until the next boot. Mounts that are
	// made afterwards have it.
	RingOn = "echo Y | sudo tee " + RingSwitch
)

// ErrRing says why Ring cannot be had.
var ErrRing = errors.New("FUSE over io_uring cannot be had")

// CheckRing returns nil if the kernel offers Ring, and otherwise what to do, in an error
// that wraps ErrRing.
func CheckRing() error {
	state, err := os.ReadFile(RingSwitch)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: the kernel does not have it (Linux 6.14 does; modprobe fuse loads it)", ErrRing)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrRing, err)
	case !bytes.HasPrefix(state, []byte("Y")):
		return fmt.Errorf("%w: it is off; this turns it on for the mounts that follow: %s", ErrRing, RingOn)
	}
	return nil
}
