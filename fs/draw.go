package fs

import (
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/transcode"
)

// Random views are directories below .draw/SEED/EPOCH: the path says what is drawn, and so
// its files are as immutable as any others. Neither a seed nor an epoch has to be made
// before it is entered, and none is listed.
//
// A random view in the root is for programs that cannot change their paths. Each LOOKUP of
// a file in it leads to the next epoch of that file, with the seed of the mount; the kernel
// keeps no such name, so that each open has bytes of its own, which stay what they are.

// drawDir is .draw/SEED, or .draw/SEED/EPOCH.
type drawDir struct {
	seed, epoch uint64
	inSeed      bool // it is an epoch
}

// lookupDraw is LOOKUP in .draw, and in the directories of seeds and epochs.
func (f *FS) lookupDraw(parent uint64, name string, out *fuse.EntryOut) fuse.Status {
	if parent == drawNode {
		return f.lookupDrawDir(drawDir{}, name, out)
	}
	s := f.root.special(uint32(parent))
	switch {
	case s == nil || s.draw == nil:
		return fuse.ENOENT
	case !s.draw.inSeed:
		return f.lookupDrawDir(drawDir{seed: s.draw.seed, inSeed: true}, name, out)
	}
	v, err := f.findDrawn(*s.draw, name)
	if err != nil {
		f.explain(name, err)
		return fuse.ENOENT
	}
	return f.fillView(v, out)
}

// lookupDrawDir is LOOKUP of a number: a seed, or an epoch of the directory of a seed.
func (f *FS) lookupDrawDir(d drawDir, name string, out *fuse.EntryOut) fuse.Status {
	n, err := strconv.ParseUint(name, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != name {
		return fuse.ENOENT
	}
	if d.inSeed {
		d.epoch = n
	} else {
		d.seed = n
	}
	r := f.root
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.draws[d]
	if s == nil {
		s = r.add(special{draw: &d})
		r.draws[d] = s
	}
	s.refs++
	r.fill(out, s, forever)
	return fuse.OK
}

// forgetDraw forgets what the kernel forgot: a directory, or a file that tells a draw.
func (r *root) forgetDraw(id uint32, times uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.nodes[id]
	if s == nil || s.refs == 0 {
		return
	}
	if s.refs -= min(times, s.refs); s.refs == 0 {
		delete(r.nodes, id)
		if s.draw != nil {
			delete(r.draws, *s.draw)
		}
	}
}

// drawSuffix is what a name has that leads to the draw of a file: a.npy.draw tells what
// was drawn for a.npy. It is not listed.
const drawSuffix = ".draw"

// drawn is the content of such a file.
type drawn struct {
	Sample string           `json:"sample"` // its path in the dataset
	View   string           `json:"view"`
	Seed   uint64           `json:"seed"`
	Epoch  uint64           `json:"epoch"`
	Size   [2]int           `json:"size"` // of the sample: width and height in pixels
	Moves  []transcode.Move `json:"moves"`
}

// runDraw is LOOKUP of a file that tells a draw.
func (l *lookup) runDraw() error {
	name, ok := strings.CutSuffix(l.name, drawSuffix)
	if !ok || !l.v.pipeline.Random() || l.v.pipeline.Undrawn() {
		return iofs.ErrNotExist
	}
	var entry fuse.EntryOut
	of := *l
	of.name, of.out = name, &entry
	if err := of.run(); err != nil {
		return err
	}
	index, id := splitNode(entry.NodeId)
	if index != originalView {
		defer l.f.views.at(index).release(1) // the kernel is not told of it
	}
	if index == originalView || l.f.tree.entries.at(id).kind == isDir {
		return iofs.ErrNotExist // nothing is drawn for what is no sample, and what the view leaves as it is
	}
	h := l.f.handles.get(entry.NodeId)
	if h == nil {
		return errAgain
	}
	d := drawn{Sample: l.f.tree.path(id), View: l.v.pipeline.String(), Moves: h.Plan().Moves()}
	d.Size = [2]int{h.Plan().Info().Width, h.Plan().Info().Height}
	draw, _ := l.v.pipeline.DrawOf("")
	d.Seed, d.Epoch = draw.Seed, draw.Epoch
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	r := l.f.root
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.add(special{fixed: append(data, '\n'), refs: 1})
	s.size = len(s.fixed)
	r.fill(l.out, s, 0)
	return nil
}

// nextDraw returns the view of the next epoch of a file, held.
func (f *FS) nextDraw(v *view, id uint32) (*view, error) {
	v.opensMu.Lock()
	if need := int(id) + 1 - len(v.opens); need > 0 {
		v.opens = append(v.opens, make([]uint32, need)...)
	}
	epoch := v.opens[id]
	v.opens[id]++
	v.opensMu.Unlock()
	v.said.Do(func() {
		f.log.Info("a random view without a path below "+transcode.DrawDir+": each open of a file is its next draw", "view", v.name, "seed", f.seed)
	})
	return f.findDrawn(drawDir{seed: f.seed, epoch: uint64(epoch)}, v.pipeline.String())
}

// validation are names of directories of pictures by which a training is judged.
var validation = []string{"val", "valid", "validation", "test"}

// noteValidation logs that a program draws where it hardly means to. It is told once for
// each view.
func (f *FS) noteValidation(v *view, path string) {
	if !v.pipeline.Random() || !slices.Contains(validation, path) {
		return
	}
	key := v.pipeline.String() + "/" + path
	if _, told := f.specErrors.LoadOrStore(key, true); !told {
		f.log.Warn("pictures for validation are drawn at random; the view that does not is "+v.pipeline.Validation(), "view", v.name, "directory", path)
	}
}

// findDrawn returns the view of a spec in an epoch, held.
func (f *FS) findDrawn(d drawDir, spec string) (*view, error) {
	name := fmt.Sprintf("%s/%d/%d/%s", transcode.DrawDir, d.seed, d.epoch, spec)
	if v := f.views.named(name, true); v != nil {
		return v, nil
	}
	p, err := f.reg.ParseRandom(spec)
	switch {
	case err != nil:
		return nil, err
	case !p.Random():
		return nil, fmt.Errorf("view %q draws nothing: its files are below MNT/%s", spec, p)
	case p.String() != spec:
		return nil, fmt.Errorf("view %q: write %s", spec, p)
	}
	return f.enter(p.In(d.seed, d.epoch), true)
}

// parentOf returns the node and name by which the kernel knows a view. Where it has
// forgotten the directory, it knows no view in it.
func (r *root) parentOf(v *view) (parent uint64, name string) {
	d, ok := v.pipeline.DrawOf("")
	if !ok {
		return rootNode, v.name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.draws[drawDir{d.Seed, d.Epoch, true}]; s != nil {
		return s.node, path.Base(v.name)
	}
	return drawNode, path.Base(v.name)
}
