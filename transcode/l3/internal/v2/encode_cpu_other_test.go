//go:build !linux

package v2

import "time"

var encodeStart = time.Now()

func encodeCPU() time.Duration { return time.Since(encodeStart) }
