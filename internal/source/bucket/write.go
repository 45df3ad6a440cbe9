package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/store/blob"
)

// WriteOptions of Write.
type WriteOptions struct {
	// Progress is told how many objects were listed, now and then; nil is told nothing.
	Progress func(objects int64)
	Log      *slog.Logger // nil is silent
}

// ErrEmpty is that there is no object in a place. Nobody means that: the place is misspelled, or
// was moved.
var ErrEmpty = errors.New("there is no object")

// Write lists a place and writes the manifest as a directory, whole or not at all, in place of one that
// is there. If there is nothing to list, the error is of the class ErrEmpty.
func Write(ctx context.Context, o blob.Objects, dir string, w WriteOptions) (_ Summary, err error) {
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	if err := mayReplace(dir); err != nil {
		return Summary{}, err
	}
	m := &manifestWriter{WriteOptions: w}
	m.Summary = Summary{Format: formatVersion, Place: placeName(o.String()), Listed: time.Now().Round(0)}
	if m.names, err = index.Create(ctx, dir, manifestID, 0); err != nil {
		return Summary{}, err
	}
	err = m.list(ctx, o)
	if err == nil && m.Objects == 0 {
		err = fmt.Errorf("%s: %w; is the place right?", m.Place, ErrEmpty)
	}
	if err != nil {
		return Summary{}, errors.Join(err, m.names.Abort())
	}
	return m.Summary, m.names.Finish(m.Summary)
}

// mayReplace refuses what is there and no manifest.
func mayReplace(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("a manifest is a directory: %w", err)
	}
	if !index.Is(dir) {
		return fmt.Errorf("%s is a directory that holds something else: choose another name for the manifest", dir)
	}
	return nil
}

// manifestWriter writes a manifest from objects in the order of their names.
type manifestWriter struct {
	WriteOptions
	Summary
	names *index.Writer
	value []byte
	last  string
	// above are the names that were written and that the last one begins with, in order. If what
	// follows such a name is a slash, it is a directory as well.
	above []above
	told  int64
}

type above struct {
	name   string
	size   int64
	hidden bool // it was counted in Shadowed
}

// toldObjects is how often progress is told.
const toldObjects = 1000

// add takes the next object.
func (m *manifestWriter) add(i *blob.Info) error {
	if i.Size == 0 && strings.HasSuffix(i.Name, "/") || i.Name == "" {
		return nil
	}
	if why := unfit(i.Name); why != "" {
		m.leaveOut(i.Name, why)
		return nil
	}
	if m.last != "" && i.Name <= m.last {
		return fmt.Errorf("%s lists %q behind %q, which is not the order of S3: it cannot be mounted", m.Place, i.Name, m.last)
	}
	m.last = i.Name
	m.note(i)
	if len(i.Version) > maxVersion {
		return fmt.Errorf("%s: the version of the object %s has %d bytes", m.Place, i.Name, len(i.Version))
	}
	m.value = appendObject(m.value[:0], i)
	if err := m.names.Add([]byte(i.Name), m.value); err != nil {
		return err
	}
	m.Objects++
	m.Bytes += i.Size
	if m.Progress != nil && m.Objects >= m.told+toldObjects {
		m.told = m.Objects
		m.Progress(m.Objects)
	}
	return nil
}

// note finds names that are also directories.
func (m *manifestWriter) note(i *blob.Info) {
	name := i.Name
	for len(m.above) > 0 && !strings.HasPrefix(name, m.above[len(m.above)-1].name) {
		m.above = m.above[:len(m.above)-1]
	}
	for k := range m.above {
		a := &m.above[k]
		if !a.hidden && name[len(a.name)] == '/' {
			a.hidden = true
			m.Shadowed++
			m.Objects--
			m.Bytes -= a.size
			m.leaveOut(a.name, "others have it before a slash, so it is a directory")
		}
	}
	m.above = append(m.above, above{name: name, size: i.Size})
}

// mostLogged is how many of the objects that are left out are logged one by one.
const mostLogged = 20

func (m *manifestWriter) leaveOut(name, why string) {
	switch m.LeftOut++; {
	case m.LeftOut <= mostLogged:
		m.Log.Warn("an object is left out", "place", m.Place, "name", fmt.Sprintf("%q", name), "cause", why)
	case m.LeftOut == mostLogged+1:
		m.Log.Warn("more objects are left out, and counted only", "place", m.Place)
	}
}
