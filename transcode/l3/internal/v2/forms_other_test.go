//go:build !amd64

package v2

import "github.com/pipefs/pipefs/transcode/internal/codectest"

var encodeForms, decodeForms = codectest.FormsOf(nil), codectest.FormsOf(nil)
