package transcode

import (
	"errors"
	"fmt"
)

// The four kinds of codec error. Every error that a codec returns wraps exactly
// one of them, so that a caller can tell a broken file from a file that this
// program cannot read, and both from a bug of ours.
var (
	// ErrBad marks data that violates its own format.
	ErrBad = errors.New("bad data")
	// ErrUnsupported marks data that is valid as far as we can tell, but of a
	// flavour that the codec does not handle, or larger than a limit allows.
	ErrUnsupported = errors.New("unsupported")
	// ErrTruncated marks data that ends before its format says it should.
	ErrTruncated = errors.New("truncated")
	// ErrInternal marks a broken promise of ours, never of the input.
	ErrInternal = errors.New("internal error")
)

// Errorf formats an error of one of the four kinds. The kind's own text comes
// first: "truncated: scan 3 ends at byte 811".
func Errorf(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{kind}, args...)...)
}
