package fs

import (
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/transcode"
)

// Random views are directories below .draw/SEED/EPOCH, or .draw/SEED/EPOCH.REPEAT for more
// draws of a file in one epoch: the path says what is drawn, and so
// its files are as immutable as any others. Neither a seed nor an epoch has to be made
// before it is entered, and none is listed.
//
// A random view in the root is for programs that cannot change their paths. Each LOOKUP of
// a file in it leads to the next epoch of that file, with the seed of the mount; the kernel
// keeps no such name, so that each open has bytes of its own, which stay what they are.

// drawDir is .draw/SEED, or .draw/SEED/EPOCH.REPEAT.
type drawDir struct {
	Seed, Epoch uint64
	Repeat      uint32
	InSeed      bool // it is an epoch
}

func (d drawDir) path() string {
	path := fmt.Sprintf("%s/%d", transcode.DrawDir, d.Seed)
	if d.InSeed {
		path += "/" + transcode.EpochDir(d.Epoch, d.Repeat)
	}
	return path
}

// lookupDraw is LOOKUP in .draw, and in the directories of seeds and epochs.
func (f *FS) lookupDraw(parent uint64, name string, out *fuse.EntryOut) fuse.Status {
	if parent == drawNode {
		return f.lookupDrawDir(drawDir{}, name, out)
	}
	s := f.root.special(uint32(parent))
	switch {
	case s == nil && f.journal.Resumes():
		return estale // of a daemon before this one: the kernel looks up again what leads here
	case s == nil || s.draw == nil:
		return fuse.ENOENT
	case !s.draw.InSeed:
		return f.lookupDrawDir(drawDir{Seed: s.draw.Seed, InSeed: true}, name, out)
	}
	v, err := f.findDrawn(*s.draw, name)
	if err != nil {
		f.explain(name, err)
		return fuse.ENOENT
	}
	return f.fillView(v, out)
}

// lookupDrawDir is LOOKUP of a seed, or of an epoch in the directory of a seed.
func (f *FS) lookupDrawDir(d drawDir, name string, out *fuse.EntryOut) fuse.Status {
	n, repeat, ok := transcode.ParseEpochDir(name)
	if !ok || !d.InSeed && repeat > 0 {
		f.explain(name, fmt.Errorf("%q is no number: a random view is at MNT/%s/SEED/EPOCH/VIEW", name, transcode.DrawDir))
		return fuse.ENOENT
	}
	if d.InSeed {
		d.Epoch, d.Repeat = n, repeat
	} else {
		d.Seed = n
	}
	f.root.fillPath(d.path(), special{draw: &d}, forever, out, func(s *special) { f.root.note(s, specialRecord{Draw: &d}) })
	return fuse.OK
}

// forget forgets what the kernel forgot, of what is below .draw and .epoch.
func (r *root) forget(id uint32, times uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.nodes[id]
	if s == nil || s.refs == 0 {
		return
	}
	if s.refs -= min(times, s.refs); s.refs == 0 {
		delete(r.nodes, id)
		if r.paths[s.name] == s {
			delete(r.paths, s.name)
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
	Repeat uint32           `json:"repeat"`
	Size   [2]int           `json:"size"` // of the sample: width and height in pixels
	Moves  []transcode.Move `json:"moves"`
	// Ops change values, and may move pixels where that is not among the moves.
	Ops []transcode.DrawnOp `json:"ops,omitempty"`
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
	d := drawn{Sample: l.f.tree.path(id), View: l.v.pipeline.String(), Moves: h.Plan().Moves(), Ops: h.Plan().Ops()}
	d.Size = [2]int{h.Plan().Info().Width, h.Plan().Info().Height}
	draw, _ := l.v.pipeline.DrawOf("")
	d.Seed, d.Epoch, d.Repeat = draw.Seed, draw.Epoch, draw.Repeat
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	r := l.f.root
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.add(special{fixed: append(data, '\n'), sample: id, refs: 1})
	s.size = len(s.fixed)
	r.fill(l.out, s, 0)
	return nil
}

// counted is the file whose lookups say what a file of a random view in the root draws: the picture of
// a mask, or itself.
func (f *FS) counted(v *view, id uint32) uint32 {
	for _, picture := range f.roles.PicturesOf(f.tree.path(id)) {
		if of, _, _, err := f.entry(v, picture); err == nil {
			return of
		}
	}
	return id
}

// nextDraw returns the view of the next epoch of a file, held. A mask follows its picture: it has
// the epoch with which that was looked up last.
func (f *FS) nextDraw(v *view, id uint32) (*view, error) {
	of := f.counted(v, id)
	v.opensMu.Lock()
	if need := int(max(id, of)) + 1 - len(v.opens); need > 0 {
		v.opens = append(v.opens, make([]uint32, need)...)
	}
	if of == id {
		v.opens[of]++
	}
	n := v.opens[of]
	v.opensMu.Unlock()
	if n == 0 {
		return nil, fmt.Errorf("it is the mask of %s, which this mount has not shown in %s yet: open the picture first, or read both below %s/SEED/EPOCH, where the path says what is drawn", f.tree.path(of), v.name, transcode.DrawDir)
	}
	epoch := v.drawn + n - 1
	v.said.Do(func() {
		f.log.Info("a random view without a path below "+transcode.DrawDir+": each open of a file is its next draw", "view", v.name, "seed", f.seed)
	})
	return f.findDrawn(drawDir{Seed: f.seed, Epoch: uint64(epoch)}, v.pipeline.String())
}

// A file of a random view is read once: its epoch does not come back. If its pages stayed,
// they would take the page cache from the dataset's own files, which every epoch reads. So
// they are dropped when drawnBehind other such files were read to their ends. A program that
// asks for such a file again gets the same bytes, made again.
//
// FOPEN_DIRECT_IO would keep the pages out from the beginning, and take 0.8 of the CPU time of
// reading such a file by one read (np.load: the same). But a mount in PageCache mode is asked
// for no opens, of all its views (see [FS.Open]), which is worth more to the others, and a
// file could not be mapped.

// drawnBehind is how many files of random views keep their pages: the readers of one file
// may be as far apart as this, such as two trainings of the same seed.
const drawnBehind = 256

// readDraws are the files of random views that were read to their ends last, a ring.
type readDraws struct {
	mu    sync.Mutex
	nodes [drawnBehind]uint64
	next  int
}

// add notes a file, and returns the one that is dropped for it, or 0.
func (r *readDraws) add(node uint64) (behind uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	behind, r.nodes[r.next] = r.nodes[r.next], node
	r.next = (r.next + 1) % drawnBehind
	return behind
}

// readDraw notes that a file of a random view was read to its end.
func (f *FS) readDraw(node uint64) {
	if behind := f.readDraws.add(node); behind != 0 {
		f.handles.drop(behind)
		if !f.expire { // this notice may wait, too
			f.notify.add(notice{pages: behind})
		}
	}
}

// validation are names of directories of pictures by which a training is judged.
var validation = []string{"val", "valid", "validation", "test"}

// deepest is below how many directories they may lie: images/val does. Classes further down
// may have any name.
const deepest = 1

// noteValidation logs that a program draws where it hardly means to. It is told once for
// each view.
func (f *FS) noteValidation(v *view, dir string) {
	if !v.pipeline.Random() || !slices.Contains(validation, path.Base(dir)) || strings.Count(dir, "/") > deepest {
		return
	}
	key := v.pipeline.String() + "/" + dir
	if _, told := f.specErrors.LoadOrStore(key, true); !told {
		f.log.Warn("pictures for validation are drawn at random; the view that does not is "+v.pipeline.Validation(), "view", v.name, "directory", dir)
	}
}

// findDrawn returns the view of a spec in an epoch, held.
func (f *FS) findDrawn(d drawDir, spec string) (*view, error) {
	d.InSeed = true
	if v := f.views.named(d.path()+"/"+spec, true); v != nil {
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
	return f.enter(p.In(d.Seed, d.Epoch).Repeat(d.Repeat), true)
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
	if s := r.paths[drawDir{d.Seed, d.Epoch, d.Repeat, true}.path()]; s != nil {
		return s.node, path.Base(v.name)
	}
	return drawNode, path.Base(v.name)
}
