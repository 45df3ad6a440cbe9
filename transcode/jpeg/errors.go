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

// Limits bounds what a file may cost. The zero value of each field means its
// default. A file over a limit is unsupported (transcode.ErrUnsupported).
//
// Memory for coefficients is about 136 bytes a block, that is 2.1 bytes a pixel
// and component at full resolution. The transcoder needs about half of that again
// for ordinary pictures, and twice that for noise. It is allocated only once the
// picture's size has been checked against MaxPixels and against the length of the
// file, since every block takes at least one bit.
type Limits struct {
	// MaxPixels is the largest width times height. Default:
	// transcode.DefaultMaxPixels.
	MaxPixels int64
	// MaxScans is the largest number of scans. Default: DefaultMaxScans.
	MaxScans int
	// MaxSegments is the largest number of marker segments that are not scans.
	// Default: DefaultMaxSegments.
	MaxSegments int
}

// Defaults of Limits. A script of libjpeg has at most 18 scans, and a file as
// the largest ICC profiles need has 255 segments for it.
const (
	DefaultMaxScans    = 128
	DefaultMaxSegments = 4096
)

// LimitsOf is the part of l that concerns a JPEG, with the defaults filled in.
func LimitsOf(l transcode.Limits) Limits {
	return Limits{MaxPixels: l.MaxPixels, MaxScans: l.MaxScans, MaxSegments: l.MaxSegments}.orDefaults()
}

// overLimit is the error for a file over the limit that the option raises.
func overLimit(at int, option, format string, args ...any) error {
	return &Error{Kind: transcode.ErrUnsupported, Offset: at, Limit: true,
		Detail: fmt.Sprintf(format, args...) + "; " + option + " raises the limit"}
}

// tooManyScans is the error for the scan at an offset that is one too many.
func (l Limits) tooManyScans(at int) error {
	return overLimit(at, "--max-scans", "more than %d scans", l.MaxScans)
}

func (l Limits) orDefaults() Limits {
	if l.MaxPixels == 0 {
		l.MaxPixels = transcode.DefaultMaxPixels
	}
	if l.MaxScans == 0 {
		l.MaxScans = DefaultMaxScans
	}
	if l.MaxSegments == 0 {
		l.MaxSegments = DefaultMaxSegments
	}
	return l
}
