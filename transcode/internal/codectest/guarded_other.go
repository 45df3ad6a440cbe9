//go:build !linux

package codectest

import "testing"

// Guarded returns n bytes of memory.
func Guarded(_ testing.TB, n int, _ bool) (b []byte, free func()) { return make([]byte, n), func() {} }
