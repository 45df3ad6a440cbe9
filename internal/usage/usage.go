// Package usage marks errors that are the caller's to mend: options that do not go together,
// a name that stands for nothing. Packages below cmd/pipefs return them and know no exit codes;
// package exit gives them that of wrong usage.
package usage

import "fmt"

// Error is such an error. Its text is that of Err.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Errorf formats an error of usage.
func Errorf(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }

// With marks err; a nil err stays nil.
func With(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err}
}
