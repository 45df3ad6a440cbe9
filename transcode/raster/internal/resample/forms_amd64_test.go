package resample

import "github.com/pipefs/pipefs/transcode/internal/codectest"

var forms = codectest.FormsOf(&accelerated)
