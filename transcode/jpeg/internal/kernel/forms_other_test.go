//go:build !amd64

package kernel

import "github.com/pipefs/pipefs/transcode/internal/codectest"

var forms = codectest.FormsOf(nil)
