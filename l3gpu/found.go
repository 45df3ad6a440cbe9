package l3gpu

import (
	"fmt"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/driver"
)

// Found describes a GPU without taking any of its memory for long, or says why it cannot be
// used.
func Found(index int) (string, error) {
	d, err := driver.Open(index)
	if err != nil {
		return "", fmt.Errorf("GPU %d: %w", index, err)
	}
	return describe(d.Info()), d.Close()
}

// describe is a device for a log line.
func describe(i device.Info) string {
	return fmt.Sprintf("%s, compute capability %d.%d, driver for CUDA %s", i.Name, i.Major, i.Minor, i.CUDA())
}
