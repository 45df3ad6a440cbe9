//go:build !amd64

package v1

import "github.com/pipefs/pipefs/transcode/internal/codectest"

var forms = codectest.FormsOf(nil)
