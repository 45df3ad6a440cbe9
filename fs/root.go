package fs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/lru"
	"github.com/pipefs/pipefs/transcode"
)

// The nodes that belong to no view. Those of links and files are given out, from
// firstSpecial on.
const (
	rootNode     = fuse.FUSE_ROOT_ID
	pipefsNode   = 2
	listsNode    = 3
	drawNode     = 4
	epochNode    = 5
	firstDir     = 6 // of Options.Files
	firstSpecial = 16
)

const (
	pipefsName  = ".pipefs"
	controlName = "control"
	listsName   = "lists"
	listSuffix  = ".txt"
	currentName = "current"
)

// root holds what lies beside the views.
type root struct {
	files map[string]func() ([]byte, error) // of Options
	dirs  []string                          // of those, sorted
	made  time.Time

	mu        sync.Mutex
	journal   *Journal
	again     func(id uint32) *special // finds what a daemon before this one has shown; nil if there was none
	next      uint32
	journaled uint32              // numbers below are reserved in the journal
	nodes     map[uint32]*special // every node that was given out
	links     []link              // of the root, in the order of listing
	control   *special
	newest    map[string]*special      // files and lists, by name
	data      *lru.Map[uint64, []byte] // of these, by node; what was dropped is made again
	paths     map[string]*special      // what the kernel knows below .draw and .epoch, and batches that are asked for

	walker walker
}

// maxSpecialData is of how many files and lists the data are kept.
const maxSpecialData = 1 << 12

// link is a symbolic link of the root.
type link struct {
	name string
	to   *special
}

func newRoot(o Options) *root {
	r := &root{
		files: o.Files, data: lru.New[uint64, []byte](o.ListBytes, maxSpecialData), made: time.Now(), next: firstSpecial,
		nodes: map[uint32]*special{}, newest: map[string]*special{}, paths: map[string]*special{},
	}
	for name := range o.Files {
		if dir, _, below := strings.Cut(name, "/"); below && dir != "" && !slices.Contains(r.dirs, dir) {
			r.dirs = append(r.dirs, dir)
		}
	}
	slices.Sort(r.dirs)
	return r
}

// SetCurrent moves the link `current` to a view. Programs that have files open
// keep them; every path that is resolved afterwards leads to the new view.
func (f *FS) SetCurrent(spec string) error { return f.SetLink(currentName, spec) }

// SetLink makes or moves a link of the root to a view.
func (f *FS) SetLink(name, spec string) error {
	if !validName(name) || name[0] == '.' {
		return fmt.Errorf("fs: %q cannot be the name of a link", name)
	}
	if _, err := f.reg.Parse(name); err == nil {
		return fmt.Errorf("fs: a link cannot have the name of the view %q", name)
	}
	v, err := f.view(spec)
	if err != nil {
		return err
	}
	r := f.root
	r.mu.Lock()
	i := r.link(name)
	if i < 0 {
		i = len(r.links)
		r.links = append(r.links, link{name: name})
	}
	if r.links[i].to != nil && r.links[i].to.target == v.name {
		r.mu.Unlock()
		return nil
	}
	to := r.add(special{target: v.name})
	r.note(to, specialRecord{Link: name, Target: v.name})
	r.links[i].to = to
	r.mu.Unlock()
	// At once, and by the caller: nobody may see the former link afterwards. It has
	// to be done without locks, as the kernel holds the root while it looks up.
	if s := f.kernel.Load(); s != nil {
		f.forgetName(s, rootNode, name)
	}
	return nil
}

// Links returns where the links of the root lead.
func (f *FS) Links() map[string]string {
	f.root.mu.Lock()
	defer f.root.mu.Unlock()
	links := make(map[string]string, len(f.root.links))
	for _, l := range f.root.links {
		links[l.name] = l.to.target
	}
	return links
}

// link returns the index of a link, or -1. The caller holds mu.
func (r *root) link(name string) int {
	for i, l := range r.links {
		if l.name == name {
			return i
		}
	}
	return -1
}

// lookupSpecial is LOOKUP in a directory that belongs to no view.
func (f *FS) lookupSpecial(parent uint64, name string, out *fuse.EntryOut) fuse.Status {
	r := f.root
	switch {
	case parent == rootNode && name == pipefsName:
		f.fillDir(out, pipefsNode)
	case parent == rootNode && name == transcode.DrawDir:
		f.fillDir(out, drawNode)
	case parent == rootNode && name == epoch.Dir && f.epochs != nil:
		f.fillDir(out, epochNode)
	case r.files[r.inDir(parent)+name] != nil:
		name = r.inDir(parent) + name
		return f.lookupFile(name, 0, r.files[name], out)
	case parent == rootNode:
		r.mu.Lock()
		i := r.link(name)
		if i >= 0 {
			timeout := forever
			if f.expire {
				timeout = briefly
			}
			r.fill(out, r.links[i].to, timeout)
		}
		r.mu.Unlock()
		if i < 0 {
			return f.lookupView(name, out)
		}
	case parent == pipefsNode && name == controlName && r.control != nil:
		r.fill(out, r.control, forever)
	case parent == pipefsNode && strings.HasPrefix(name, askedPrefix) && f.epochs != nil:
		f.lookupAsked(name, out)
	case parent == pipefsNode && name == listsName:
		f.fillDir(out, listsNode)
	case parent == pipefsNode && slices.Contains(r.dirs, name):
		f.fillDir(out, firstDir+uint64(slices.Index(r.dirs, name)))
	case parent == listsNode && strings.HasSuffix(name, listSuffix):
		v, err := f.view(strings.TrimSuffix(name, listSuffix))
		if err != nil {
			return fuse.ENOENT
		}
		return f.lookupList(v, name, out)
	case parent == epochNode || r.inEpoch(parent):
		return f.lookupEpoch(parent, name, out)
	default:
		return f.lookupDraw(parent, name, out)
	}
	return fuse.OK
}

// inDir is what the paths of Options.Files in a directory begin with; of a node that
// has none it is a prefix that no path has.
func (r *root) inDir(node uint64) string {
	switch {
	case node == pipefsNode:
		return ""
	case node == rootNode:
		return "/"
	case node >= firstDir && node < firstDir+uint64(len(r.dirs)):
		return r.dirs[node-firstDir] + "/"
	}
	return "//"
}

// belowMount is the path below the mount of one of Options.Files, or of a list.
func belowMount(file string) string {
	if name, ok := strings.CutPrefix(file, "/"); ok {
		return name
	}
	return pipefsName + "/" + file
}

// lookupView is LOOKUP of a view in the root.
func (f *FS) lookupView(name string, out *fuse.EntryOut) fuse.Status {
	v, err := f.findView(name, true)
	if err != nil {
		f.explain(name, err)
		return fuse.ENOENT
	}
	return f.fillView(v, out)
}

// fillView describes the root of a view that is held.
func (f *FS) fillView(v *view, out *fuse.EntryOut) fuse.Status {
	// The reply counts once more: between the two the view cannot be forgotten.
	defer v.release(1)
	d := f.tree.dir(rootID)
	keeps, events := f.keepsDir(d), d.events.Load()
	a, err := f.server.Stat("", false)
	if err != nil {
		return f.fail(v, "lookup", "", noOffset, err)
	}
	d.remember(a, events)
	f.fillEntry(out, node(v.index, rootID), a, a.Size)
	out.SetAttrTimeout(keeps)
	return fuse.OK
}

// Readlink answers for the links of the root and the control link.
func (f *FS) Readlink(_ <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	view, id := splitNode(header.NodeId)
	if view != 0 {
		return nil, fuse.EINVAL
	}
	s := f.root.special(id)
	if s == nil || s.target == "" {
		return nil, fuse.EINVAL
	}
	return []byte(s.target), fuse.OK
}
