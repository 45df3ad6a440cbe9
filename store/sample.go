package store

import (
	"cmp"

	"github.com/pipefs/pipefs/transcode"
)

// Identity distinguishes one version of a file of the dataset from every other. Two
// equal identities mean equal bytes; what a source cannot tell apart by them, pipefs
// cannot either.
type Identity struct {
	Size int64 // bytes
	// Version is understood by the source alone: a directory has inode and times there,
	// a bucket a hash of the ETag. The store only compares it.
	Version [24]byte
}

// Kind is the kind of an entry. The numbers are stored; never reorder them.
type Kind uint8

// The kinds.
const (
	File      Kind = iota + 1 // a sample, or any other file of the dataset
	Dir                       // a directory, kept even where it is empty
	Tombstone                 // what used to be there is gone
)

func (k Kind) String() string {
	switch k {
	case File:
		return "file"
	case Dir:
		return "directory"
	case Tombstone:
		return "tombstone"
	}
	return "unknown kind"
}

// Sample is one entry of the dataset's tree as it is stored. A directory has no
// Info and no representations.
type Sample struct {
	// Path relative to the dataset, with slashes; "" is the dataset itself.
	Path string
	Kind Kind
	// Mode holds the permission bits (07777), nothing else.
	Mode   uint32
	Source Identity
	Info   transcode.Info
	// Fault says why no codec could read the file; "" where one could.
	Fault string
	// Seq is the position in packed order: entries with ascending Seq lie at
	// ascending places of ascending packs. A store grows at its end, so numbers
	// of replaced and removed entries are missing.
	Seq             int64
	Representations []Representation
}

// Representation finds a representation by its key, nil where there is none.
func (s *Sample) Representation(key string) *Representation {
	for i := range s.Representations {
		if s.Representations[i].Key == key {
			return &s.Representations[i]
		}
	}
	return nil
}

// Representation is what a prefix of a pipeline made of a sample: parts of
// packs, and a few literal bytes.
type Representation struct {
	// Key names the prefix and the implementation of its steps: "original",
	// "scan@jpeg1", "resize256-bmp@…". Equal keys over an equal source are equal
	// bytes.
	Key string
	// Parts in order; the whole is their concatenation, then Tail.
	Parts []Part
	// Levels[k-1] is the number of leading parts that argument k takes. Empty:
	// there is only the whole.
	Levels []int
	// Tail follows the parts at every level: a JPEG's EOI.
	Tail []byte

	path string // of the sample
	src  Identity
}

// Part is a range of a pack.
type Part struct {
	Pack     uint32
	Off, Len int64 // bytes
	// Sums holds the CRC32C of each ChunkSize bytes of the part; the last chunk
	// may be shorter.
	Sums []uint32
}

// ChunkSize is the number of bytes that one checksum covers at most.
const ChunkSize = 64 << 10

// Size is the length in bytes at a level; 0 is the whole. It is -1 for a level
// that the representation does not have.
func (r *Representation) Size(level int) int64 {
	n, ok := r.parts(level)
	if !ok {
		return -1
	}
	size := int64(len(r.Tail))
	for _, p := range r.Parts[:n] {
		size += p.Len
	}
	return size
}

// parts is the number of leading parts that a level takes.
func (r *Representation) parts(level int) (int, bool) {
	switch {
	case level == 0:
		return len(r.Parts), true
	case level < 0 || level > len(r.Levels):
		return 0, false
	}
	return r.Levels[level-1], true
}

// Child is an entry of a directory.
type Child struct {
	Name string
	Kind Kind // File or Dir
	Seq  int64
}

func bySeq(a, b Child) int { return cmp.Compare(a.Seq, b.Seq) }
