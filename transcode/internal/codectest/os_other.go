//go:build !linux

package codectest

import (
	"testing"
	"time"
)

var start = time.Now()

// Guarded returns n bytes of memory.
func Guarded(_ testing.TB, n int, _ bool) (b []byte, free func()) { return make([]byte, n), func() {} }

// cpuTime is the time that has passed.
func cpuTime(*testing.B) time.Duration { return time.Since(start) }
