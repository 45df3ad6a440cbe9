package blockcache

// index finds pieces by the keys of their blocks. It is a hash table of 4 bytes for each place, in
// parts, so that no part takes long to grow; the keys themselves are in the segments. Of one block
// there may be several pieces.
type index struct {
	segments []*segment // by id; nil where there is none
	parts    [1 << partBits]part
	pieces   int
}

type part struct {
	refs []uint32 // a power of two
	full int      // places that are not empty
}

// ref is a piece: the id of its segment, and its place in that.
type ref = uint32

const (
	partBits = 6
	idShift  = 16
	mostIDs  = 1<<(32-idShift) - 1

	empty ref = 1<<32 - 1
	dead  ref = 1<<32 - 2
)

func (x *index) at(r ref) (*segment, uint32) { return x.segments[r>>idShift], r & (1<<idShift - 1) }

func (x *index) hi(r ref) uint64 {
	s, i := x.at(r)
	return s.his[i]
}

func (x *index) piece(r ref) piece {
	s, i := x.at(r)
	return s.pieces[i]
}

// seek is the first place from i on, cyclically, where there is a piece of a block, or -1. Its
// pieces begin at the place hi.
func (x *index) seek(p *part, hi, i uint64) int {
	if len(p.refs) == 0 {
		return -1
	}
	for mask := uint64(len(p.refs) - 1); ; i++ {
		switch r := p.refs[i&mask]; {
		case r == empty:
			return -1
		case r != dead && x.hi(r) == hi:
			return int(i & mask)
		}
	}
}

func (x *index) part(hi uint64) *part { return &x.parts[hi>>(64-partBits)] }

// find returns a piece of a block that has one of some units, or empty.
func (x *index) find(hi uint64, any units) ref {
	p := x.part(hi)
	for i := x.seek(p, hi, hi); i >= 0; i = x.seek(p, hi, uint64(i)+1) {
		if r := p.refs[i]; x.piece(r).units()&any != 0 {
			return r
		}
	}
	return empty
}

// held is all units of a block that are there.
func (x *index) held(hi uint64) (all units) {
	p := x.part(hi)
	for i := x.seek(p, hi, hi); i >= 0; i = x.seek(p, hi, uint64(i)+1) {
		all |= x.piece(p.refs[i]).units()
	}
	return all
}

// put adds a piece that is in its segment, and returns the same one of another segment, or empty.
func (x *index) put(r ref) ref {
	hi := x.hi(r)
	p := x.part(hi)
	for i := x.seek(p, hi, hi); i >= 0; i = x.seek(p, hi, uint64(i)+1) {
		if old := p.refs[i]; x.piece(old) == x.piece(r) {
			p.refs[i] = r
			return old
		}
	}
	if 4*(p.full+1) > 3*len(p.refs) {
		x.grow(p)
	}
	p.insert(hi, r)
	x.pieces++
	return empty
}

func (p *part) insert(hi uint64, r ref) {
	mask := uint64(len(p.refs) - 1)
	for i := hi & mask; ; i = (i + 1) & mask {
		if p.refs[i] == empty {
			p.refs[i] = r
			p.full++
			return
		}
	}
}

// grow makes room, which is also where dead places become empty.
func (x *index) grow(p *part) {
	live := 0
	for _, r := range p.refs {
		if r != empty && r != dead {
			live++
		}
	}
	n := 16
	for 2*n < 4*(live+1) {
		n *= 2
	}
	old := p.refs
	p.refs, p.full = make([]uint32, n), 0
	for i := range p.refs {
		p.refs[i] = empty
	}
	for _, r := range old {
		if r != empty && r != dead {
			p.insert(x.hi(r), r)
		}
	}
}

// drop removes a piece, and reports whether it was there.
func (x *index) drop(r ref) bool {
	hi := x.hi(r)
	p := x.part(hi)
	for i := x.seek(p, hi, hi); i >= 0; i = x.seek(p, hi, uint64(i)+1) {
		if p.refs[i] == r {
			p.refs[i] = dead
			x.pieces--
			return true
		}
	}
	return false
}

// add gives a segment its id; false says that there are too many.
func (x *index) add(s *segment) bool {
	for id, other := range x.segments {
		if other == nil {
			s.id, x.segments[id] = uint32(id), s
			return true
		}
	}
	if len(x.segments) == mostIDs {
		return false
	}
	s.id = uint32(len(x.segments))
	x.segments = append(x.segments, s)
	return true
}
