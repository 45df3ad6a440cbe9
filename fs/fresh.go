package fs

import (
	"math"
	"time"
)

// Freshness says how a mount learns what changes in the dataset. It holds for the
// whole mount: the kernel asks for opens everywhere or nowhere.
type Freshness uint8

// The kinds of freshness.
const (
	// Immutable: nothing changes. The kernel keeps names and attributes for ever and
	// does not ask when a file is opened. A change that is noticed all the same, since a
	// directory is opened or a file has to be read, is told to the kernel.
	Immutable Freshness = iota
	// Watched: the kernel keeps names and attributes for ever, does not ask when a file
	// is opened, and is told what Options.Watcher sees. Where a directory cannot be
	// watched, and for files that are no samples, names and attributes expire.
	Watched
	// Checked: names and attributes expire, and each open compares the file with what
	// was looked up.
	Checked
)

func (f Freshness) String() string {
	return [...]string{"immutable", "watched", "checked"}[f]
}

// MarshalText is String.
func (f Freshness) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// forever is the timeout of names and attributes of which the kernel is told when they
// change; briefly of those where it is not.
const (
	forever = time.Duration(math.MaxInt64)
	briefly = time.Second
)

// keeps is how long the kernel may keep the name of an entry in a directory, and its
// attributes.
func (f *FS) keeps(d *dir, id uint32) (name, attr time.Duration) {
	if f.expire {
		defer func() { name = briefly }()
	}
	switch f.fresh {
	case Immutable:
		return forever, forever
	case Checked:
		return briefly, briefly
	}
	e := f.tree.entries.at(id)
	if !d.watched.Load() || e.link && f.live.loose(id) {
		return briefly, briefly
	}
	if e.kind == isDir {
		return forever, f.keepsDir(f.tree.dir(id))
	}
	// Labels are few, and a user who edits them looks at once.
	if !f.reg.IsSample(f.tree.name(id)) {
		return briefly, briefly
	}
	return forever, forever
}

// keepsDir is how long the kernel may keep the attributes of a directory.
func (f *FS) keepsDir(d *dir) time.Duration {
	if f.fresh == Immutable || f.fresh == Watched && d.watched.Load() {
		return forever
	}
	return briefly
}
