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
	// Key of the view's file: the same for each read of it in a mount. Files that
	// are listed one after the other have successive keys.
	Key uint64
	// Steps is the number of steps of the whole plan.
	Steps int
	// Candidates, at least one, in no particular order.
	Candidates []Candidate
}

// Policy chooses. It is asked whenever a file is opened that is not in memory, so
// it must be quick, must not allocate, and must be safe for concurrent use.
type Policy interface {
	// Choose returns an index into r.Candidates.
	Choose(r Request) int
	// Takes reports whether the materialized file of a key is taken where there is a
	// choice. The answer for a key never changes.
	Takes(key uint64) bool
	// Share of the reads, from 0 to 1, that are to be of materialized files.
	Share() float64
}

// Longest takes the representation that leaves the fewest steps to compute, and
// of two such the smaller one. So the share of samples that are materialized is
// the mix.
type Longest struct{}

// Choose implements [Policy].
func (Longest) Choose(r Request) int {
	best, _ := r.best()
	return best
}

// Takes implements [Policy].
func (Longest) Takes(uint64) bool { return true }

// Share implements [Policy].
func (Longest) Share() float64 { return 1 }

// best returns the candidate that [Longest] takes, and the one it would take next,
// -1 where there is only one.
func (r *Request) best() (best, second int) {
	second = -1
	for i := 1; i < len(r.Candidates); i++ {
		switch {
		case r.Candidates[i].before(r.Candidates[best]):
			best, second = i, best
		case second < 0 || r.Candidates[i].before(r.Candidates[second]):
			second = i
		}
	}
	return best, second
}

// before reports whether c leaves less to compute than d, or is smaller.
func (c Candidate) before(d Candidate) bool {
	return c.Steps > d.Steps || c.Steps == d.Steps && c.Bytes < d.Bytes
}

// whole reports whether a candidate is the whole result.
func (r *Request) whole(i int) bool { return r.Candidates[i].Steps == r.Steps }
