//go:build !linux

package kernel

import "testing"

func guarded(t testing.TB, n int, atEnd bool) []byte { return make([]byte, n) }
