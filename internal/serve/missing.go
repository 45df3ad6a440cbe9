package serve

import (
	"fmt"
	"slices"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// Shown says how a view shows a sample.
type Shown uint8

// The ways. A sample that is NotShown has an entry in the view, and reading it fails.
const (
	AsPlanned Shown = iota
	// Reencoded: the view would show the file as it is. The file is not to be had,
	// and its picture is encoded again in the same format.
	Reencoded
	// NotShown: nothing that is stored gives it, and there is no dataset.
	NotShown
)

// Missing is what a view of a store without its dataset lacks.
type Missing struct {
	// Samples that the view does not show. Where the globs of the roles may decide,
	// this is how many it can be at most.
	Samples int64 `json:"missing"`
	// Reencoded counts the samples whose bytes are not those of the file, as they would
	// be with the dataset.
	Reencoded int64 `json:"reencoded"`
	// Of is the number of samples that a codec could read when they were packed.
	Of int64 `json:"-"`
	// All: not one of them is shown.
	All bool `json:"-"`
}

// Missing tells what a view lacks. The answer is about what was packed; samples that
// are damaged do not count. It takes a lookup for each kind of sample, however many
// there are of it.
func (s *Server) Missing(v transcode.Pipeline) (Missing, error) {
	if s.o.Store == nil || s.o.Dataset != nil {
		return Missing{}, nil
	}
	stats := s.o.Store.Stats()
	m := Missing{Of: stats.Pictures}
	surely := int64(0)
	for _, alike := range stats.WithoutOriginal {
		sample, err := s.o.Store.Lookup(alike.Example)
		if err != nil {
			return Missing{}, fmt.Errorf("what %s/ can show: %w", v, err)
		}
		ways := s.waysToShow(v, &sample)
		if slices.Contains(ways, NotShown) {
			m.Samples += alike.Samples
		}
		if slices.Min(ways) == NotShown {
			surely += alike.Samples
		}
		if slices.Contains(ways, Reencoded) {
			m.Reencoded += alike.Samples
		}
	}
	m.All = m.Of > 0 && surely == m.Of
	return m, nil
}

// waysToShow are those in which a view may show samples that are like one.
func (s *Server) waysToShow(v transcode.Pipeline, sample *store.Sample) (ways []Shown) {
	switch {
	case s.hasOriginal(sample):
		return []Shown{AsPlanned}
	case v.Stored() && s.o.Store.Fraction(v.Whole().String()) != nil:
		return []Shown{AsPlanned, NotShown} // it may hold any of them
	}
	for _, role := range s.possibleRoles() {
		ways = append(ways, s.shownAs(v, sample, role))
	}
	return ways
}

// possibleRoles are those that some sample may have.
func (s *Server) possibleRoles() []transcode.Role {
	roles := []transcode.Role{transcode.Auto, transcode.Image} // the pixels may decide
	if len(s.o.Roles.Masks)+len(s.o.Roles.Pairs) > 0 {
		roles = append(roles, transcode.Mask)
	}
	return roles
}

// Shows tells how a view shows a sample that is stored, or nil.
func (s *Server) Shows(v transcode.Pipeline, sample *store.Sample) Shown {
	if sample == nil {
		return AsPlanned
	}
	return s.shownAs(v, sample, s.o.Roles.Of(sample.Path))
}

func (s *Server) shownAs(v transcode.Pipeline, sample *store.Sample, role transcode.Role) Shown {
	if s.hasOriginal(sample) {
		return AsPlanned
	}
	h := &Handle{
		server: s, file: File{Path: sample.Path, Identity: source.IdentityOf(sample.Source.Size, sample.Source.Version)}, view: v, sample: sample,
		plan: s.Plan(v, sample.Info, role, sample),
	}
	if v.Stored() && !s.o.Store.Holds(sample, h.plan.Key()) || h.Unchanged() {
		return NotShown
	}
	// A copy is there for this sample, and says nothing of others.
	if !slices.ContainsFunc(s.candidates(h), func(c candidate) bool { return c.in == nil }) {
		return NotShown
	}
	if s.o.Registry.Plan(v, sample.Info, role).Unchanged() {
		return Reencoded
	}
	return AsPlanned
}

// Plan fits a view to a sample, of which that is stored, or nil. Where the file is not to
// be had and the view would show it as it is, its picture is encoded again.
func (s *Server) Plan(v transcode.Pipeline, info transcode.Info, role transcode.Role, stored *store.Sample) transcode.Plan {
	plan := s.o.Registry.Plan(v, info, role)
	if plan.Unchanged() && !s.hasOriginal(stored) {
		plan = s.o.Registry.PlanReencoded(v, info, role)
	}
	return plan
}

// hasOriginal reports whether the file itself is to be had, of a sample of which that
// is stored, or nil.
func (s *Server) hasOriginal(stored *store.Sample) bool {
	return s.o.Dataset != nil || stored == nil || stored.Representation(transcode.Original) != nil || s.restorer(stored) != nil
}
