package jpeg

import (
	"fmt"

	"github.com/pipefs/pipefs/transcode"
)

// Error is the error of all functions of this package.
type Error struct {
	// Kind is transcode.ErrBad, ErrUnsupported, ErrTruncated or ErrInternal.
	Kind error
	// Offset says where in the input, in bytes from its start: at the segment or
	// scan at fault, or, for entropy-coded data, at the scan's SOS marker.
	Offset int
	// Need is set where the input ends in the middle of the header: reading on
	// makes no sense with fewer than this many bytes of the file. 0 otherwise.
	Need int
	// Limit says that the file is over one of Limits, and nothing worse.
	Limit bool
	// Detail says what is wrong.
	Detail string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%v: jpeg, byte %d: %s", e.Kind, e.Offset, e.Detail)
}

// Unwrap makes errors.Is(err, transcode.ErrBad) and the like work.
func (e *Error) Unwrap() error { return e.Kind }

func bad(offset int, format string, args ...any) error {
	return &Error{Kind: transcode.ErrBad, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

func unsupported(offset int, format string, args ...any) error {
	return &Error{Kind: transcode.ErrUnsupported, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

func truncated(offset int, format string, args ...any) error {
	return &Error{Kind: transcode.ErrTruncated, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

func internal(format string, args ...any) error {
	return &Error{Kind: transcode.ErrInternal, Detail: fmt.Sprintf(format, args...)}
}

// short is the error for input that ends inside something that takes need bytes.
func short(offset, have, need int) error {
	return &Error{Kind: transcode.ErrTruncated, Offset: offset, Need: need,
		Detail: fmt.Sprintf("input ends after %d bytes, %d or more are needed", have, need)}
}
