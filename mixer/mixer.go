package mixer

// Candidate is a representation of one sample that a view can be made from.
type Candidate struct {
	// Steps is the number of the plan's steps that it stands for; what follows
	// has to be computed.
	Steps int
	// Bytes is its size: what has to be read.
	Bytes int64
	// Dataset: it is the file of the dataset, not of a store.
	Dataset bool
}

// Request is one read to decide on. Policies must not keep Candidates.
type Request struct {
	// Key of the view's file: the same for each read of it in a mount.
	Key uint64
	// Steps is the number of steps of the whole plan.
	Steps int
	// Candidates, at least one, in no particular order.
	Candidates []Candidate
}

// Policy chooses. It is asked on every read, so it must be quick, must not
// allocate, and must be safe for concurrent use.
type Policy interface {
	// Choose returns an index into r.Candidates. Where the mount's cache mode is
	// `page` the answer for a Key must not depend on anything that changes.
	Choose(r Request) int
}

// Longest takes the representation that leaves the fewest steps to compute, and
// of two such the smaller one.
type Longest struct{}

// Choose implements [Policy].
func (Longest) Choose(r Request) int {
	best := 0
	for i, c := range r.Candidates {
		b := r.Candidates[best]
		if c.Steps > b.Steps || (c.Steps == b.Steps && c.Bytes < b.Bytes) {
			best = i
		}
	}
	return best
}
