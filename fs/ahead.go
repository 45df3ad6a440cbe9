package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// aheadTree is the mount as package ahead wants it.
type aheadTree struct{ f *FS }

var errOpensDraw = errors.New("each open of a file of this view is another draw: what comes next cannot be made ahead; read it below MNT/" + transcode.DrawDir + "/SEED/EPOCH")

// Target implements [ahead.Tree].
func (t aheadTree) Target(_ context.Context, path string) (target serve.Target, err error) {
	f := t.f
	v, rest, err := f.viewOf(path)
	if err != nil {
		return target, err
	}
	defer v.release(1)
	if v.pipeline.Undrawn() {
		return target, errOpensDraw
	}
	id, d, events, err := f.entry(v, rest)
	if err != nil {
		return target, err
	}
	name := f.tree.path(id)
	a, known := f.tree.known(id)
	if !known {
		if a, err = f.look(id, name); err != nil {
			return target, err
		}
		if !a.Mode.IsRegular() {
			return target, fmt.Errorf("%s is no file", name)
		}
		if id, _ = f.tree.identify(d, id, a, events); id == 0 {
			return target, source.ErrChanged
		}
	}
	return serve.Target{
		Key: node(v.files.index, id), Original: node(originalView, id),
		File: f.file(id, a), View: v.pipeline,
	}, nil
}

// View implements [ahead.Tree].
func (t aheadTree) View(path string) (transcode.Pipeline, error) {
	v, rest, err := t.f.viewOf(path + "/")
	if err != nil {
		return transcode.Pipeline{}, err
	}
	defer v.release(1)
	if rest != "" {
		return transcode.Pipeline{}, fmt.Errorf("%s is no view, but lies in one", path)
	}
	return v.pipeline, nil
}

// Listed implements [ahead.Tree].
func (t aheadTree) Listed(p transcode.Pipeline, path string) (string, error) {
	return t.f.Listed(p, path)
}

// viewOf returns the view in which a path below the root of the mount lies, held, and what
// follows it.
func (f *FS) viewOf(path string) (v *view, rest string, err error) {
	first, rest, _ := strings.Cut(path, "/")
	if first != transcode.DrawDir {
		f.root.mu.Lock()
		if i := f.root.link(first); i >= 0 {
			first = f.root.links[i].to.target
		}
		f.root.mu.Unlock()
		v, err = f.findView(first, true)
		return v, rest, err
	}
	parts := strings.SplitN(rest, "/", 4)
	if len(parts) < 4 {
		return nil, "", iofs.ErrNotExist
	}
	d := drawDir{InSeed: true}
	seed, none, ok := transcode.ParseEpochDir(parts[0])
	if !ok || none > 0 {
		return nil, "", iofs.ErrNotExist
	}
	d.Seed = seed
	if d.Epoch, d.Repeat, ok = transcode.ParseEpochDir(parts[1]); !ok {
		return nil, "", iofs.ErrNotExist
	}
	v, err = f.findDrawn(d, parts[2])
	return v, parts[3], err
}
