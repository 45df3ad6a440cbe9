package fs

import (
	"path"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// maxName is the length in bytes of the longest name, NAME_MAX of Linux.
const maxName = 255

// names gives the names of one directory in one view. They follow from the own
// names of the directory alone; no file is read for them, and nothing is kept.
//
//   - A sample is listed with the extension of what the view makes of it: a.jpg
//     as a.bmp. A view of own names, such as bmp-own or stored-bmp, lists a.jpg.
//   - Where two files would get the same name, or a file has it already, the full
//     name is kept and gains the extension: a.jpg.bmp.
//   - Where that name is too long or taken as well, the own name is kept. It is
//     free, since no other file gets a name that is an own name.
type names struct {
	t        *tree
	s        *snapshot
	reg      *transcode.Registry
	pipeline transcode.Pipeline
	roles    transcode.Roles
	dir      string // path of the directory, for roles
}

// namesOf returns the names of a directory's listing in a view.
func (f *FS) namesOf(v *view, d *dir, s *snapshot) names {
	n := names{t: f.tree, s: s, reg: f.reg, pipeline: v.pipeline, roles: f.roles}
	if n.roles.Given() {
		n.dir = f.tree.path(d.id)
	}
	return n
}

func (n *names) own(k int) string { return n.t.nameAt(n.s, k) }

// target is the name that an entry would get if it were alone.
func (n *names) target(k int) string {
	id := n.s.at(n.s.position(k))
	name := n.t.name(id)
	if n.t.entries.at(id).kind == isDir {
		return name
	}
	return n.reg.Name(n.pipeline, name, n.role(name))
}

func (n *names) role(name string) transcode.Role {
	if !n.roles.Given() {
		return transcode.Auto
	}
	return n.roles.Of(join(n.dir, name))
}

// listed is the name under which the k-th entry is listed; k counts own names in
// their order.
func (n *names) listed(k int) string {
	own, want := n.own(k), n.target(k)
	if want == own || len(want) > maxName {
		return own
	}
	if !n.wanted(want, k) {
		return want
	}
	full := own + path.Ext(want)
	if len(full) > maxName || n.wanted(full, k) {
		return own
	}
	return full
}

// wanted reports whether an entry other than the k-th has a name or would get it
// if it were alone. Such an entry's own name begins with the stem of the name and
// a dot, unless it is the name.
func (n *names) wanted(name string, k int) bool {
	stem := strings.TrimSuffix(name, path.Ext(name)) + "."
	for i := n.begin(stem, k); i < len(n.s.ids); i++ {
		own := n.own(i)
		if !strings.HasPrefix(own, stem) {
			return false
		}
		if i == k {
			continue
		}
		if own == name || oneDot(own, stem) && n.target(i) == name {
			return true
		}
	}
	return false
}

// oneDot reports whether a name is the stem and an extension: only then can it
// lose that for another one.
func oneDot(name, stem string) bool { return strings.LastIndexByte(name, '.') == len(stem)-1 }

// begin is the first entry whose own name begins with stem; near is where the
// search begins, as names are mostly asked for in their order.
func (n *names) begin(stem string, near int) int {
	if strings.HasPrefix(n.own(near), stem) && (near == 0 || n.own(near-1) < stem) {
		return near
	}
	return n.t.search(n.s, stem)
}

// find returns the entry to which a name leads: the one that is listed under it,
// or else the one whose own name it is; -1 if there is none.
func (n *names) find(name string) int {
	own := n.t.search(n.s, name)
	exists := own < len(n.s.ids) && n.own(own) == name
	if exists && n.listed(own) == name {
		return own
	}
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for i := n.t.search(n.s, stem+"."); i < len(n.s.ids); i++ {
		if !strings.HasPrefix(n.own(i), stem+".") {
			break
		}
		if oneDot(n.own(i), stem+".") && n.target(i) == name && n.listed(i) == name {
			return i
		}
	}
	// a.jpg.bmp of a.jpg
	if i := n.t.search(n.s, stem); ext != "" && i < len(n.s.ids) && n.own(i) == stem && n.listed(i) == name {
		return i
	}
	if exists {
		return own
	}
	return -1
}

// alike returns the entries whose listed names may change when an entry of this
// own name comes or goes: those that begin with its stem and a dot, and the one
// that is called like its stem.
func (n *names) alike(name string) (ks []int) {
	stem := strings.TrimSuffix(name, path.Ext(name))
	if k := n.t.search(n.s, stem); k < len(n.s.ids) && n.own(k) == stem {
		ks = append(ks, k)
	}
	for k := n.t.search(n.s, stem+"."); k < len(n.s.ids) && len(ks) < maxAlike; k++ {
		if !strings.HasPrefix(n.own(k), stem+".") {
			break
		}
		ks = append(ks, k)
	}
	return ks
}

// maxAlike bounds the names that are invalidated because of one.
const maxAlike = 1024

// listedOf is the name under which the entry at a position of the listing is
// listed.
func (n *names) listedOf(position int) string {
	if n.s.sorted == nil {
		return n.listed(position)
	}
	return n.listed(n.t.search(n.s, n.t.name(n.s.at(position))))
}
