package strategy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/transcode"
)

// task is a pipeline over samples that can be read.
type task struct {
	registry *transcode.Registry
	limits   transcode.Limits
	pipeline transcode.Pipeline
	steps    int // of the pipeline, that are run
	meta     bool
	splits   []Split
	samples  []*sample
	files    []string // of the samples, in their order
	faulty   []Fault
}

// Fault is a file that was left out, and why.
type Fault struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// survey runs the whole pipeline once over all files. It finds files that cannot be read,
// and all sizes.
func survey(ctx context.Context, c *Config) (*task, error) {
	t := &task{registry: c.Registry, limits: c.Registry.Limits(), pipeline: c.Pipeline, splits: views.Splits(c.Registry, c.Pipeline)}
	steps := views.Work(c.Pipeline)
	t.steps = len(steps)
	t.meta = steps[len(steps)-1].Kind.To == transcode.File
	var names []string
	for _, name := range c.Files {
		if c.Registry.IsSample(name) {
			names = append(names, name)
		}
	}
	found := make([]*sample, len(names))
	var mu sync.Mutex
	bufs := make([][]byte, runtime.GOMAXPROCS(0))
	err := loader.Each(ctx, len(bufs), len(names), func(ctx context.Context, w, i int) error {
		s := &sample{name: filepath.Join(c.Root, filepath.FromSlash(names[i])), role: c.Roles.Of(names[i])}
		info, err := os.Stat(s.name)
		if err == nil {
			err = c.Registry.Limits().CheckFile(info.Size())
		}
		if err == nil {
			bufs[w], err = loader.ReadFile(s.name, bufs[w])
		}
		if err == nil {
			err = t.look(ctx, s, bufs[w])
		}
		switch {
		case errors.Is(err, transcode.ErrBad), errors.Is(err, transcode.ErrTruncated), errors.Is(err, transcode.ErrUnsupported):
			mu.Lock()
			t.faulty = append(t.faulty, Fault{names[i], err.Error()})
			mu.Unlock()
		case err != nil:
			return fmt.Errorf("%s: %w", s.name, err)
		default:
			found[i] = s
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		if s != nil {
			t.samples, t.files = append(t.samples, s), append(t.files, s.name)
		}
	}
	switch {
	case len(t.samples) > 0:
		return t, nil
	case len(t.faulty) > 0:
		return nil, fmt.Errorf("none of the %d samples in %s can be read; %s: %s", len(t.faulty), c.Root, t.faulty[0].Path, t.faulty[0].Reason)
	}
	return nil, fmt.Errorf("none of the %d files in %s is a sample by its name", len(c.Files), c.Root)
}

// look finds all that has to be known about one sample.
func (t *task) look(ctx context.Context, s *sample, file []byte) (err error) {
	if s.info, err = t.registry.ProbeBytes(file); err != nil {
		return err
	}
	s.steps = t.registry.Plan(t.pipeline, s.info, s.role).Steps()
	s.bytes = int64(len(file))
	at := s.source(file)
	for i, split := range t.splits {
		if i > 0 {
			if at, err = s.run(ctx, t.limits, at, t.splits[i-1].Steps, split.Steps); err != nil {
				return err
			}
		}
		s.bodies = append(s.bodies, bodySize(at, t.meta))
	}
	s.result = size(at)
	return nil
}

// source is the payload of a sample's file.
func (s *sample) source(file []byte) transcode.Payload {
	return transcode.Payload{Shape: start(s.info, s.role), Bytes: file}
}

// changed wraps an error, if any, about a file that the survey could read.
func (s *sample) changed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// same reports whether a file is still as long as it was.
func (s *sample) same(file []byte) error {
	if int64(len(file)) != s.bytes {
		return fmt.Errorf("%s has changed while it was measured: %d bytes, and %d before", s.name, len(file), s.bytes)
	}
	return nil
}
