package store

import (
	"errors"
	"io/fs"

	"github.com/pipefs/pipefs/store/vfs"
)

// segment checks that the segment of a pack holds what the pack's footer says: the same
// entries make the same bytes.
func (c *checker) segment(p *SealedPack) error {
	name := p.name().segment()
	_, records, err := footerOf(c.o.FS, c.dir, p.name())
	if err != nil {
		return nil //nolint:nilerr // the problem is the pack's, and is found there
	}
	l, err := openSegment(c.o.FS, c.dir, p.name(), p.Segment)
	if errors.Is(err, fs.ErrNotExist) {
		c.add(Missing, name, "", 0, errors.New("packing again makes it from its pack"))
		return nil
	}
	if err != nil {
		return c.segmentProblem(name, err)
	}
	defer l.f.Close()
	err = l.each(func([]byte) bool { return c.ctx.Err() == nil })
	if err == nil {
		var want listSeal
		if want, err = writeSegment(discard{}, p.name(), records); err == nil && want != l.seal {
			err = errors.New("not what the pack says; packing again makes it from its pack")
		}
	}
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	return c.segmentProblem(name, damaged("", err))
}

func (c *checker) segmentProblem(name string, err error) error {
	var bad *CorruptError
	if errors.As(err, &bad) {
		err = &CorruptError{Cause: bad.Cause}
	}
	return c.found(name, err)
}

// discard is a file that keeps nothing.
type discard struct{ vfs.File }

func (discard) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
