package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/pipefs/pipefs/internal/index"
)

// Writer writes an index of paths in the order of their bytes.
type Writer struct {
	w    *index.Writer
	of   string // what the files are in, for messages
	log  *slog.Logger
	last string
	// above are the files that were written and that the last path begins with, in order. If what
	// follows such a path is a slash, it is a directory as well.
	above []above
	Counts
}

// Counts are what was written.
type Counts struct {
	Objects int64 `json:"objects"`  // files: objects of a bucket, members of archives
	Bytes   int64 `json:"bytes"`    // of the files
	LeftOut int64 `json:"left_out"` // files whose paths no file can have, and Shadowed
	// Shadowed is the number of files that are in the index, and left out because their paths
	// are also directories.
	Shadowed int64 `json:"shadowed"`
}

type above struct {
	path   string
	size   int64
	hidden bool // it was counted in Shadowed
}

// ErrOrder is that a path does not come after the one before it.
var ErrOrder = errors.New("not in the order of names")

// Create begins an index in a directory; see [index.Create].
func Create(ctx context.Context, dir, id, of string, size int64, log *slog.Logger) (*Writer, error) {
	w, err := index.Create(ctx, dir, id, size)
	if err != nil {
		return nil, err
	}
	return &Writer{w: w, of: of, log: log}, nil
}

// Add adds a file of a size, or a directory where the path ends with a slash.
func (w *Writer) Add(path string, value []byte, size int64) error {
	if why := Unfit(strings.TrimSuffix(path, "/")); why != "" {
		w.LeaveOut(path, why)
		return nil
	}
	if w.last != "" && path <= w.last {
		return fmt.Errorf("%q comes behind %q: %w", path, w.last, ErrOrder)
	}
	w.last = path
	w.note(path, size)
	if err := w.w.Add([]byte(path), value); err != nil {
		return err
	}
	if !strings.HasSuffix(path, "/") {
		w.Objects++
		w.Bytes += size
	}
	return nil
}

// note finds files whose paths are also directories.
func (w *Writer) note(path string, size int64) {
	for len(w.above) > 0 && !strings.HasPrefix(path, w.above[len(w.above)-1].path) {
		w.above = w.above[:len(w.above)-1]
	}
	for k := range w.above {
		a := &w.above[k]
		if !a.hidden && path[len(a.path)] == '/' {
			a.hidden = true
			w.Shadowed++
			w.Objects--
			w.Bytes -= a.size
			w.LeaveOut(a.path, "others have it before a slash, so it is a directory")
		}
	}
	if !strings.HasSuffix(path, "/") {
		w.above = append(w.above, above{path: path, size: size})
	}
}

// mostLogged is how many of the files that are left out are logged one by one.
const mostLogged = 20

// LeaveOut counts and logs a file that is not shown.
func (w *Writer) LeaveOut(path, why string) {
	switch w.LeftOut++; {
	case w.LeftOut <= mostLogged:
		w.log.Warn("a file is left out", "of", w.of, "name", fmt.Sprintf("%q", path), "cause", why)
	case w.LeftOut == mostLogged+1:
		w.log.Warn("more files are left out, and counted only", "of", w.of)
	}
}

// Finish makes the index appear; see [index.Writer.Finish].
func (w *Writer) Finish(meta any) error { return w.w.Finish(meta) }

// Abort removes what was written.
func (w *Writer) Abort() error { return w.w.Abort() }
