//go:build amd64 || arm64

package resample

import "github.com/pipefs/pipefs/transcode/internal/codectest"

var forms = codectest.FormsOf(&accelerated)
