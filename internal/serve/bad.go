package serve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/transcode"
)

// A bad sample is one whose bytes no codec can make pixels of. What its readers get is a policy:
// an error, black pixels in a batch, or another sample with the same label.

// OnError says what readers of a bad sample get.
type OnError uint8

// The policies.
const (
	Fail    OnError = iota // an error
	Black                  // in a batch, values of 0
	Replace                // another sample with the same label
)

func (o OnError) String() string { return [...]string{"fail", "black", "replace"}[o] }

// DefaultErrorLimit is the share of the samples that may be bad.
const DefaultErrorLimit = 0.02

// maxBad bounds the bad samples that are remembered, and so the limit.
const maxBad = 1 << 16

// ErrTooManyBad is the cause of errors when more samples are bad than the limit allows.
var ErrTooManyBad = errors.New("too many samples cannot be made")

// BadSample is a sample that cannot be made, and why.
type BadSample struct{ Path, Cause string }

type badSamples struct {
	mu      sync.Mutex
	causes  map[string]string // by path
	counted sync.Once
	total   int // samples of the dataset
}

// IsBad reports whether the bytes of a sample are at fault: every reader gets that error.
func IsBad(err error) bool { return isFault(err) || errors.Is(err, errFault) }

// OnError is the policy.
func (s *Server) OnError() OnError { return s.o.OnError }

// note notes a bad sample, and returns how many there are by now.
func (s *Server) note(name string, cause error) int {
	bad := &s.bad
	bad.mu.Lock()
	_, known := bad.causes[name]
	if !known && len(bad.causes) < maxBad {
		if bad.causes == nil {
			bad.causes = map[string]string{}
		}
		bad.causes[strings.Clone(name)] = cause.Error()
	}
	n := len(bad.causes)
	bad.mu.Unlock()
	if !known && s.o.OnError != Fail { // else there is an error that is logged
		s.log.Warn("a sample cannot be made", "sample", name, "instead", s.o.OnError, "cause", cause)
	}
	return n
}

// cause is why a sample could not be made for a reader; empty if it was not noted.
func (b *badSamples) cause(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.causes[name]
}

// Excuse notes that a sample cannot be made. It returns nil if black pixels or another sample may
// take its place, and otherwise the error that its reader gets.
func (s *Server) Excuse(name string, cause error) error {
	if errors.Is(cause, ErrRefused) || errors.Is(cause, ErrTooManyBad) || s.o.OnError != Black && !IsBad(cause) {
		return cause
	}
	n := s.note(name, cause)
	switch {
	case s.o.OnError == Fail:
		return cause
	case n <= 1:
		return nil
	}
	s.bad.counted.Do(func() { s.bad.total = s.countSamples("") })
	if most := math.Ceil(s.o.ErrorLimit * float64(s.bad.total)); float64(n) > most || n == maxBad {
		return fmt.Errorf("%w: %d of %d by now, more than --on-error-limit %g%%; pipefs check DATASET names them all. This one: %s: %s",
			ErrTooManyBad, n, s.bad.total, 100*s.o.ErrorLimit, name, cause.Error()) // it must not be taken for the cause
	}
	return nil
}

func (s *Server) countSamples(dir string) (n int) {
	entries, _ := s.List(dir) // what cannot be listed has no samples that could be read
	for _, e := range entries {
		if name := path.Join(dir, e.Name); e.Dir {
			n += s.countSamples(name)
		} else if s.o.Registry.IsSample(name) {
			n++
		}
	}
	return n
}

// Bad are the bad samples that readers have met, by path.
func (s *Server) Bad() []BadSample {
	s.bad.mu.Lock()
	defer s.bad.mu.Unlock()
	all := make([]BadSample, 0, len(s.bad.causes))
	for name, cause := range s.bad.causes {
		all = append(all, BadSample{name, cause})
	}
	slices.SortFunc(all, func(a, b BadSample) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// checked is what [Server.Check] found of a version of a file.
type checked struct {
	file File
	err  error
}

// Check decodes a sample as a whole. The error says why it cannot be.
func (s *Server) Check(ctx context.Context, f File) (err error) {
	s.mu.Lock()
	known, ok := s.checks.Get(f.Path)
	s.mu.Unlock()
	if ok && known.file == f {
		return known.err
	}
	defer func() {
		if r := recover(); r != nil {
			err = transcode.Errorf(transcode.ErrInternal, "panic: %v", r)
			s.stats.panics.Add(1)
		}
	}()
	if err = s.decodes(ctx, f); err == nil || IsBad(err) {
		s.mu.Lock()
		s.checks.Put(strings.Clone(f.Path), checked{f, err}, 0)
		s.mu.Unlock()
	}
	return err
}

func (s *Server) decodes(ctx context.Context, f File) error {
	h, err := s.resolve(ctx, 0, f, s.o.Registry.OfPictures(s.refusals.pixels), Planned)
	switch {
	case err != nil:
		return err
	case h.plan.Info().Mode == transcode.ModeNone:
		return s.unread(h)
	case h.Unchanged():
		return nil // no view makes anything of it
	}
	made, err := h.Make(ctx)
	if err == nil {
		made.Release()
	}
	return err
}

// unread is why no codec reads a sample.
func (s *Server) unread(h *Handle) error {
	if h.sample != nil {
		return fmt.Errorf("%w: %s", errFault, h.sample.Fault)
	}
	s.mu.Lock()
	known, _ := s.headers.Get(h.file.Path)
	s.mu.Unlock()
	if known.unread == nil || known.identity != h.file.Identity {
		return transcode.Errorf(transcode.ErrUnsupported, "no codec reads it")
	}
	return known.unread
}

// Verify makes sure that a file that need not be made can be read, where bad samples are replaced.
func (h *Handle) Verify(ctx context.Context) error {
	s := h.server
	switch {
	case s.o.OnError != Replace || h.view.Len() == 0 || !s.o.Registry.IsSample(h.file.Path):
		return nil
	case h.Unchanged(), h.plan.Random() && h.plan.Info().Format != transcode.JPEG:
		// A draw decodes no more than it shows, and several draws of a sample must agree.
		return s.Check(ctx, h.file)
	}
	return nil
}

// mostTries is how many samples are tried in the place of a bad one.
const mostTries = 64

// Instead yields which of n samples to try in the place of a bad one, in this order: a function of
// the seed, the epoch and the path of the bad sample. All draws of a sample in one epoch are
// replaced by one other sample.
func Instead(d transcode.Draw, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if n == 0 {
			return
		}
		d.Repeat = 0
		random, tried := d.Random("sample instead"), map[int]bool{}
		for range mostTries {
			if i := random.Upto(n - 1); !tried[i] && !yield(i) {
				return
			} else {
				tried[i] = true
			}
		}
	}
}

// parts are names of directories that hold parts of a dataset, and no classes.
var parts = []string{"train", "training", "val", "valid", "validation", "test", "testing", "images", "image", "img", "imgs", "jpegimages", "data"}

// targets is whether all samples of a directory have the same target.
type targets struct {
	once sync.Once
	err  error // why that is not known
}

// Replaceable returns why no other sample of its directory may take the place of a sample, or nil:
// the directory has to be that of a class, and nothing in it may be the target of one sample alone.
func (s *Server) Replaceable(name string) error {
	dir := dirOf(name)
	t := remembered(&s.refusals, s.refusals.targets, dir)
	t.once.Do(func() { t.err = s.sameTargets(dir) })
	return t.err
}

func (s *Server) sameTargets(dir string) error {
	if !s.inClass(dir) {
		return fmt.Errorf("%q is not one of several directories of classes, so that another sample may have another label", "/"+dir)
	}
	if sample, file := s.findBeside(dir); file != "" {
		return fmt.Errorf("%s is the target of %s alone", file, sample)
	}
	entries, err := s.List(dir)
	if err != nil {
		return err
	}
	stems, samples := map[string]string{}, []string{}
	for _, e := range entries {
		if e.Dir {
			continue
		} else if s.o.Registry.IsSample(e.Name) {
			samples = append(samples, e.Name)
		} else {
			stems[strings.TrimSuffix(e.Name, path.Ext(e.Name))] = e.Name
		}
	}
	for _, name := range samples {
		for _, stem := range []string{name, strings.TrimSuffix(name, path.Ext(name))} {
			if file := stems[stem]; file != "" {
				return fmt.Errorf("%s is the target of %s alone", path.Join(dir, file), path.Join(dir, name))
			}
		}
	}
	for at := dir; ; at = dirOf(at) {
		for _, name := range []string{"metadata.csv", "metadata.jsonl"} {
			if _, err := s.Stat(path.Join(at, name), false); err == nil {
				return fmt.Errorf("%s has a line for each sample", path.Join(at, name))
			}
		}
		for _, c := range s.surround(at, nil).many {
			for _, name := range samples {
				if slices.Contains(c.pictures, name) {
					return fmt.Errorf("%s has targets of %s", c.file, path.Join(dir, name))
				}
			}
		}
		if at == "" {
			return nil
		}
	}
}

// inClass reports whether a directory, or one above it, is one of several beside each other that
// may be classes.
func (s *Server) inClass(dir string) bool {
	class := func(name string) bool {
		plain := strings.TrimRight(strings.ToLower(name), "0123456789")
		return !slices.Contains(parts, plain) && !IsAnnotationDirectory(name)
	}
	for at := dir; at != ""; at = dirOf(at) {
		if !class(path.Base(at)) {
			continue
		}
		entries, _ := s.List(dirOf(at))
		n := 0
		for _, e := range entries {
			if e.Dir && class(e.Name) {
				n++
			}
		}
		if n > 1 {
			return true
		}
	}
	return false
}
