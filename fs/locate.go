package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

var errIsDir = errors.New("is a directory: name a file in it")

// Located is a file of a view.
type Located struct {
	View transcode.Pipeline // of a random view, in an epoch
	Key  serve.Key
	File serve.File
	// Opened tells of a random view in the root whether the file was opened. Then View is in the
	// epoch of the last time, otherwise in that of the first.
	Opened bool
}

// Locate finds the file at a path of the mount. Nothing is drawn or made for it.
func (f *FS) Locate(path string) (Located, error) {
	name, rest, _ := strings.Cut(path, "/")
	if to, ok := f.Links()[name]; ok {
		name = to
	}
	if parts := strings.SplitN(path, "/", 5); name == transcode.DrawDir && len(parts) == 5 {
		name, rest = strings.Join(parts[:4], "/"), parts[4]
	}
	p, err := f.reg.ParsePath(name)
	if err != nil {
		return Located{}, err
	}
	if p.Path() != name {
		return Located{}, fmt.Errorf("view %q: write %s", name, p.Path())
	}
	if rest == "" {
		return Located{}, fmt.Errorf("%s is a view: name a file in it", name)
	}
	v, err := f.enter(p, true)
	if err != nil {
		return Located{}, err
	}
	defer v.release(1)
	id, err := f.entry(v, rest)
	if err != nil {
		return Located{}, fmt.Errorf("%s %w", path, err)
	}
	found := Located{File: serve.File{Path: f.tree.path(id)}}
	a, err := f.look(id, found.File.Path)
	if err != nil {
		return Located{}, err
	}
	found.File.Identity = a.Identity
	if p.Undrawn() {
		v.opensMu.Lock()
		epoch := uint64(v.drawn)
		if int(id) < len(v.opens) && v.opens[id] > 0 {
			epoch, found.Opened = epoch+uint64(v.opens[id])-1, true
		}
		v.opensMu.Unlock()
		drawn, err := f.findDrawn(drawDir{Seed: f.seed, Epoch: epoch}, p.String())
		if err != nil {
			return Located{}, err
		}
		defer drawn.release(1)
		v = drawn
	}
	found.View, found.Key = v.pipeline, node(v.files.index, id)
	return found, nil
}

// entry is the entry of the tree that a path of a view leads to, a file.
func (f *FS) entry(v *view, path string) (id uint32, err error) {
	d := f.tree.dir(rootID)
	for name := range strings.SplitSeq(path, "/") {
		if d == nil {
			return 0, iofs.ErrNotExist
		}
		l := lookup{f: f, v: v, d: d, name: name}
		if id, err = l.find(); err != nil {
			return 0, err
		}
		d = f.tree.dir(id)
	}
	if d != nil {
		return 0, errIsDir
	}
	return id, nil
}
