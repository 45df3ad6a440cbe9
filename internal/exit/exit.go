// Package exit defines the exit codes of pipefs and the errors that carry them. Only
// cmd/pipefs knows it; the packages below return errors, and mark those of usage by package usage.
//
// The codes are those of mount(8), so that scripts, systemd and automounters
// which know mount tools know pipefs too:
//
//	0   success
//	1   wrong usage, or a permission is missing: the command was refused as it
//	    stands and would be refused again
//	2   the system failed: no /dev/fuse, no memory, an I/O error, a file that
//	    cannot be read or written
//	4   an internal error: a bug of pipefs
//	8   interrupted by the user
//	32  the mount could not be made or removed for a reason that lies in what was
//	    to be mounted or where: missing or busy directories, broken stores
//
// A command that met several takes the code of the error it ends with; codes are
// never added up.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pipefs/pipefs/internal/usage"
)

// Code is what the process exits with.
type Code int

// The codes; the package comment says when which is used.
const (
	OK          Code = 0
	Usage       Code = 1
	System      Code = 2
	Internal    Code = 4
	Interrupted Code = 8
	Mount       Code = 32
)

// Error is an error that decides on the exit code. Its text is that of Err.
type Error struct {
	Code Code
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Errorf formats an error that exits with code.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// With gives err a code unless it carries one already. A nil err stays nil.
func With(code Code, err error) error {
	if err == nil {
		return nil
	}
	if coded(err) {
		return err
	}
	return &Error{Code: code, Err: err}
}

// Of is the code that err exits with. Errors that carry none are failures of the
// system, but for those that a permission or the user's Ctrl-C explains.
func Of(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	case coded(err):
		return Usage
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, fs.ErrPermission):
		return Usage
	}
	return System
}

// coded reports whether err carries a code, or says itself that it is one of usage.
func coded(err error) bool {
	var e *Error
	var u *usage.Error
	return errors.As(err, &e) || errors.As(err, &u)
}
