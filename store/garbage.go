package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/store/vfs"
)

// Listed is a file of a store, as a listing of the place has it.
type Listed struct {
	Name     string // below the store, with slashes
	Size     int64  // bytes
	Modified time.Time
}

// Waste is a file of a store that nothing needs any more.
type Waste struct {
	Listed
	Why string
	// Plan is the plan that the file belongs to, zero where it is of none, and Committed that
	// there is a COMMITTED.
	Plan      ID
	Committed bool
}

// Before reports whether w has to be removed before v.
func (w *Waste) Before(v Waste) bool { return w.compare(v) < 0 }

func (w *Waste) compare(v Waste) int {
	x, age := rank(w.Name)
	y, bge := rank(v.Name)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(age, bge))
}

// Garbage finds what can be removed from a store, of which all files are given, in the order in which it
// is to be removed: whenever that ends, what is left makes the same index again.
//
// What the current generation names stays, and so does what any generation names that was current at a time
// later than before. Of the other files, those that were made later than before stay, with all files of their plan. Packs
// that an interrupted run left are removed when all of them are older.
//
// The error says why that cannot be told.
func Garbage(fsys vfs.FS, dir string, all []Listed, before time.Time) ([]Waste, error) {
	g := &garbage{fsys: fsys, dir: dir, before: before, named: map[string]bool{}}
	if err := g.keep(all); err != nil {
		return nil, err
	}
	for _, f := range all {
		g.sort(f)
	}
	return g.collect(), nil
}

// garbage is one search for it.
type garbage struct {
	fsys   vfs.FS
	dir    string
	before time.Time

	named  map[string]bool // files of packs that are needed
	newest uint64          // age of the newest pack of the current generation
	wasted []Waste
	// Those that come after all packs that count: of runs that were interrupted, or go on.
	pending []Waste
	active  bool // one of them is not old
	plans   map[packID]*planFiles
}

// planFiles is what there is of a plan.
type planFiles struct {
	files []Listed
	young bool
}

func (g *garbage) old(f Listed) bool { return f.Modified.Before(g.before) }

// keep finds the generations that are needed, and what they name.
func (g *garbage) keep(all []Listed) error {
	current := ""
	cur, err := readGeneration(g.fsys, g.dir)
	switch {
	case err == nil:
		current = cur.fileName()
		g.name(cur)
		g.newest = cur.newestAge()
	case errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(all, func(f Listed) bool {
		return f.Name == currentName || strings.HasPrefix(f.Name, packsName+"/") || strings.HasPrefix(f.Name, generationsName+"/")
	}): // nothing was committed yet
	default:
		return fmt.Errorf("%s: which packs count cannot be told, and nothing is removed: %w; pipefs info makes the index again, or pipefs pack", g.dir, err)
	}
	type made struct {
		Listed
		number uint64
	}
	var generations []made
	for _, f := range all {
		name, is := strings.CutPrefix(f.Name, generationsName+"/")
		if n, ok := generationNumber(name); is && ok {
			generations = append(generations, made{f, n})
		}
	}
	slices.SortFunc(generations, func(a, b made) int { return cmp.Compare(a.number, b.number) })
	for i, f := range generations {
		// It was current until a later one was made.
		replaced := !slices.ContainsFunc(generations[i+1:], func(later made) bool { return later.number > f.number && !g.old(later.Listed) })
		if path.Base(f.Name) == current {
			continue
		}
		if g.old(f.Listed) && replaced {
			g.wasted = append(g.wasted, Waste{Listed: f.Listed, Why: "an old generation"})
			continue
		}
		was := &generation{}
		if _, err := readText(g.fsys, path.Join(g.dir, f.Name), was); err != nil {
			return fmt.Errorf("%s/%s: what it names cannot be told, and nothing is removed: %w", g.dir, f.Name, err)
		}
		g.name(was)
	}
	return nil
}

// name takes note of what a generation needs.
func (g *garbage) name(of *generation) {
	for i := range of.Packs {
		p := &of.Packs[i]
		g.named[p.File()], g.named[p.SegmentFile()] = true, true
	}
}

// sort puts a file to those of its kind.
func (g *garbage) sort(f Listed) {
	at, base := path.Split(f.Name)
	top, _, _ := strings.Cut(f.Name, "/")
	switch {
	case top == plansName:
		g.ofPlan(f)
	case g.named[f.Name]:
	case at == packsName+"/" || at == segmentsName+"/":
		g.ofPack(f, base)
	case at == generationsName+"/" && strings.HasSuffix(base, tmpSuffix) && g.old(f):
		g.wasted = append(g.wasted, Waste{Listed: f, Why: "never finished"})
	}
}

func (g *garbage) ofPack(f Listed, base string) {
	stem, _ := strings.CutSuffix(base, tmpSuffix)
	stem, segment := strings.CutSuffix(stem, segmentSuffix)
	if segment {
		stem += packSuffix
	}
	n, ok := parsePackName(stem)
	switch {
	case !ok: // none of ours
	case n.age > g.newest:
		g.active = g.active || !g.old(f)
		g.pending = append(g.pending, Waste{Listed: f, Why: "left by an interrupted run"})
	case g.old(f):
		g.wasted = append(g.wasted, Waste{Listed: f, Why: "unused since the store changed"})
	}
}

func (g *garbage) ofPlan(f Listed) {
	name, _, _ := strings.Cut(strings.TrimPrefix(f.Name, plansName+"/"), "/")
	var id packID
	if id.UnmarshalText([]byte(strings.TrimSuffix(name, ".plan"))) != nil {
		return
	}
	if g.plans == nil {
		g.plans = map[packID]*planFiles{}
	}
	p := g.plans[id]
	if p == nil {
		p = &planFiles{}
		g.plans[id] = p
	}
	p.young = p.young || !g.old(f)
	if !g.named[f.Name] {
		p.files = append(p.files, f)
	}
}

// collect returns what was found, in order.
func (g *garbage) collect() []Waste {
	if !g.active {
		g.wasted = append(g.wasted, g.pending...)
	}
	for id, p := range g.plans {
		if p.young {
			continue
		}
		prefix := packName{plan: id}.dir() + "/"
		committed := slices.ContainsFunc(p.files, func(f Listed) bool { return f.Name == prefix+committedName })
		counts := false // some pack of it
		for name := range g.named {
			counts = counts || strings.HasPrefix(name, prefix)
		}
		for _, f := range p.files {
			why := "of a plan that was never committed"
			switch {
			case counts:
				why = "of a plan that is committed"
			case committed:
				why = "of a plan whose packs were all replaced"
			}
			if f.Name != prefix+committedName || !counts {
				g.wasted = append(g.wasted, Waste{f, why, id, committed})
			}
		}
	}
	slices.SortFunc(g.wasted, func(a, b Waste) int { return cmp.Or(a.compare(b), strings.Compare(a.Name, b.Name)) })
	return g.wasted
}

// rank is when a file is to be removed. Without its plan nothing can be committed. Of packs the
// oldest go first: a newer one may have what marks their entries as removed.
func rank(name string) (kind int, age uint64) {
	base := path.Base(name)
	switch {
	case strings.HasSuffix(name, ".plan"):
		return 0, 0
	case strings.HasSuffix(base, packSuffix):
		n, _ := parsePackName(base)
		return 2, n.age
	case base == committedName:
		return 3, 0
	}
	return 1, 0 // markers, generations, segments
}
