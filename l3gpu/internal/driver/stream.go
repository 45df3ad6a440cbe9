package driver

import (
	"time"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
)

const (
	// streamNonBlocking keeps a stream apart from the default one, for which other
	// users of the context may wait.
	streamNonBlocking = 1
	// eventBlockingSync lets who waits sleep instead of spinning: the cores belong
	// to those who train.
	eventBlockingSync = 1
)

type stream struct {
	gpu    *gpu
	handle uintptr
}

// NewStream implements [device.Device].
func (g *gpu) NewStream(p device.Priority) (device.Stream, error) {
	s := &stream{gpu: g}
	priority := min(max(0, g.greatest), g.least)
	switch p {
	case device.High:
		priority = g.greatest
	case device.Low:
		priority = g.least
	}
	err := g.do("cuStreamCreateWithPriority", func() result { return g.api.StreamCreate(&s.handle, streamNonBlocking, priority) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *stream) Upload(dst uint64, src device.HostMemory, offset, n int64) error {
	const call = "cuMemcpyHtoDAsync"
	p, err := src.(*hostMemory).at(call, offset, n)
	if err != nil || n == 0 {
		return err
	}
	return s.gpu.do(call, func() result { return s.gpu.api.MemcpyHtoDAsync(dst, p, uintptr(n), s.handle) })
}

func (s *stream) Download(dst device.HostMemory, offset int64, src uint64, n int64) error {
	const call = "cuMemcpyDtoHAsync"
	p, err := dst.(*hostMemory).at(call, offset, n)
	if err != nil || n == 0 {
		return err
	}
	return s.gpu.do(call, func() result { return s.gpu.api.MemcpyDtoHAsync(p, src, uintptr(n), s.handle) })
}

func (s *stream) Record(e device.Event) error {
	return s.gpu.do("cuEventRecord", func() result { return s.gpu.api.EventRecord(e.(*event).handle, s.handle) })
}

func (s *stream) Wait() error {
	return s.gpu.do("cuStreamSynchronize", func() result { return s.gpu.api.StreamSync(s.handle) })
}

func (s *stream) Free() error {
	return s.gpu.do("cuStreamDestroy", func() result { return s.gpu.api.StreamDestroy(s.handle) })
}

type event struct {
	gpu    *gpu
	handle uintptr
}

// NewEvent implements [device.Device].
func (g *gpu) NewEvent() (device.Event, error) {
	e := &event{gpu: g}
	err := g.do("cuEventCreate", func() result { return g.api.EventCreate(&e.handle, eventBlockingSync) })
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (e *event) Wait() error {
	return e.gpu.do("cuEventSynchronize", func() result { return e.gpu.api.EventSync(e.handle) })
}

func (e *event) Since(earlier device.Event) (time.Duration, error) {
	var ms float32
	err := e.gpu.do("cuEventElapsedTime", func() result { return e.gpu.api.EventElapsed(&ms, earlier.(*event).handle, e.handle) })
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

func (e *event) Free() error {
	return e.gpu.do("cuEventDestroy", func() result { return e.gpu.api.EventDestroy(e.handle) })
}
