package store

import (
	"maps"
	"slices"

	"github.com/pipefs/pipefs/transcode"
)

// Stats describes what a store holds.
type Stats struct {
	Dataset      string           `json:"dataset"`       // path of the dataset that was packed, for messages
	RecordImages int              `json:"record_images"` // samples a record, at the latest packing
	Order        Order            `json:"order"`
	Seed         uint64           `json:"seed"`
	Samples      int64            `json:"samples"` // entries of kind File
	Dirs         int64            `json:"dirs"`
	Faults       int64            `json:"faults"` // samples that no codec could read
	Packs        int              `json:"packs"`
	Records      int64            `json:"records"`
	PackBytes    int64            `json:"pack_bytes"` // all packs, what was replaced included
	Bytes        map[string]int64 `json:"bytes"`      // of live samples, by key of the representation
	// Pictures are the samples that a codec could read when they were packed.
	Pictures int64 `json:"pictures"`
	// WithoutOriginal counts the pictures that are not stored as the files they are, kind
	// by kind, at most maxKinds kinds. It is never nil.
	WithoutOriginal []Alike `json:"without_original"`
}

// Alike are samples that agree in their headers, sizes and orientation aside,
// and in the keys of what is stored of them. What can be made of one can be made of all.
type Alike struct {
	Example string `json:"example"` // the path of one of them
	Samples int64  `json:"samples"`
}

// maxKinds bounds how many kinds of samples are counted apart. A dataset has a few.
// Samples of further kinds count as the last kind.
const maxKinds = 256

func (s Stats) clone() Stats {
	s.Bytes = maps.Clone(s.Bytes)
	s.WithoutOriginal = slices.Clone(s.WithoutOriginal)
	return s
}

// noStats is what add begins with.
func noStats() *Stats { return &Stats{Bytes: map[string]int64{}, WithoutOriginal: []Alike{}} }

// add counts an entry.
func (s *Stats) add(e *Sample, kinds *kindCounter) {
	if e.Kind == Dir {
		s.Dirs++
		return
	}
	s.Samples++
	if e.Fault != "" {
		s.Faults++
	}
	kinds.count(s, e)
	for i := range e.Representations {
		s.Bytes[e.Representations[i].Key] += e.Representations[i].Size(0)
	}
}

// count takes over what add and replace count.
func (s *Stats) count(o *Stats) {
	s.Samples, s.Dirs, s.Faults, s.Pictures, s.Bytes, s.WithoutOriginal = o.Samples, o.Dirs, o.Faults, o.Pictures, o.Bytes, o.WithoutOriginal
}

// replace counts an entry in the place of one that was counted, which may be nil. It returns false if all
// entries have to be counted again: an example of a kind, or the last sample with a key, may be gone.
func (s *Stats) replace(was, now *Sample, kinds *kindCounter) bool {
	if was != nil && !s.remove(was, now, kinds) {
		return false
	}
	if now.Kind != Tombstone {
		s.add(now, kinds)
	}
	return true
}

// remove takes back what add counted of an entry, which another replaces. It returns what replace does.
func (s *Stats) remove(was, now *Sample, kinds *kindCounter) bool {
	if was.Kind == Dir {
		s.Dirs--
		return true
	}
	if kind := string(kinds.of(was)); kind != "" {
		at, ok := kinds.at[kind]
		if !ok || s.WithoutOriginal[at].Example == was.Path && string(kinds.of(now)) != kind {
			return false
		}
		s.WithoutOriginal[at].Samples--
	}
	s.Samples--
	if was.Fault != "" {
		s.Faults--
	}
	if was.Info.Format != transcode.Unknown {
		s.Pictures--
	}
	for i := range was.Representations {
		key := was.Representations[i].Key
		s.Bytes[key] -= was.Representations[i].Size(0)
		if s.Bytes[key] <= 0 && now.Representation(key) == nil {
			return false
		}
	}
	return true
}

// kindCounter fills in what Stats says of samples without original.
type kindCounter struct {
	at  map[string]int // in WithoutOriginal
	key []byte
}

// kindsOf is the counter of samples that were counted.
func (x *index) kindsOf(st *Stats) (*kindCounter, error) {
	c := &kindCounter{at: map[string]int{}}
	for i := range st.WithoutOriginal {
		e, err := x.get(st.WithoutOriginal[i].Example)
		if err != nil {
			return nil, err
		}
		if e == nil || len(c.of(e)) == 0 {
			return nil, errRecount
		}
		c.at[string(c.of(e))] = i
	}
	return c, nil
}

// of is the kind of a sample, until the next call; empty if its original is stored, or no codec reads it.
func (c *kindCounter) of(s *Sample) []byte {
	if s.Info.Format == transcode.Unknown || s.Representation(transcode.Original) != nil {
		return nil
	}
	alike := s.Info
	alike.Width, alike.Height, alike.Orientation = 0, 0, 0
	if s.Info.Width > maxSide || s.Info.Height > maxSide {
		alike.Width = 1
	}
	c.key = transcode.AppendInfo(c.key[:0], alike)
	for i := range s.Representations {
		c.key = appendBytes(c.key, s.Representations[i].Key)
	}
	return c.key
}

func (c *kindCounter) count(st *Stats, s *Sample) {
	if s.Info.Format == transcode.Unknown {
		return
	}
	st.Pictures++
	kind := c.of(s)
	if len(kind) == 0 {
		return
	}
	at, ok := c.at[string(kind)]
	switch {
	case ok:
	case len(st.WithoutOriginal) == maxKinds:
		at = maxKinds - 1
	default:
		at = len(st.WithoutOriginal)
		c.at[string(kind)] = at
		st.WithoutOriginal = append(st.WithoutOriginal, Alike{Example: s.Path})
	}
	st.WithoutOriginal[at].Samples++
}

// maxSide is the width and height, in pixels, up to which no format refuses a picture.
const maxSide = 1<<16 - 1
