package fs

import (
	"path"
	"strings"

	"github.com/pipefs/pipefs/internal/epoch"
)

// pastEpochs are the directories and files below .epoch that daemons before this one have
// shown. Each is found again when the kernel asks for it.
type pastEpochs struct {
	f     *FS
	dirs  map[uint32]specialRecord
	files map[uint32]pastBatch
}

// digest is that of the epoch view, empty of a directory of numbers.
func (d *epochDir) digest() string {
	if d.view == nil {
		return ""
	}
	return d.view.Digest()
}

// find returns what a number stands for, nil where that is gone.
func (e *pastEpochs) find(id uint32) *special {
	if was, ok := e.dirs[id]; ok {
		d := e.dir(was)
		if d == nil {
			return nil
		}
		return e.restore(id, was.Epoch, special{epoch: d})
	}
	was, ok := e.files[id]
	if !ok {
		return nil
	}
	in := e.f.root.special(was.dir)
	if in == nil || in.epoch == nil || in.epoch.view == nil {
		return nil
	}
	file, err := in.epoch.view.File(was.name)
	if err != nil || uint64(file.Size()) != was.size {
		e.lost(path.Join(in.name, was.name), err)
		return nil
	}
	return e.restore(id, path.Join(in.name, was.name), special{batch: file, size: int(was.size)})
}

// dir enters a directory again.
func (e *pastEpochs) dir(was specialRecord) *epochDir {
	if e.f.epochs == nil {
		return nil
	}
	d, err := e.f.enterEpoch(strings.Split(was.Epoch, "/"))
	if err != nil || d.digest() != was.Digest {
		e.lost(was.Epoch, err)
		return nil
	}
	return d
}

func (e *pastEpochs) lost(path string, err error) {
	e.f.log.Warn("what is open there cannot be read further: the dataset has changed since the daemon before this one", "path", epoch.Dir+"/"+path, "cause", err)
}

// restore gives it its number.
func (e *pastEpochs) restore(id uint32, key string, s special) *special {
	r := e.f.root
	r.mu.Lock()
	defer r.mu.Unlock()
	if there := r.nodes[id]; there != nil {
		return there
	}
	s.node, s.mtime, s.name, s.refs = node(0, id), r.made, key, manyRefs
	r.nodes[id] = &s
	if r.epochs[key] == nil {
		r.epochs[key] = &s
	}
	return &s
}
