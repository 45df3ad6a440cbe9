package mountd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// Gaps tells which views of a store lack samples, because neither the store nor a
// dataset has what they would show.
type Gaps struct {
	server   *serve.Server
	registry *transcode.Registry
	lacking  []Gap // in the order in which they were asked for
	// reencoded are the views that show other bytes than with the dataset.
	reencoded []Gap
}

// Gap is one view that lacks samples.
type Gap struct {
	View string
	serve.Missing
}

// All gaps, in the order in which the views were given.
func (g *Gaps) All() []Gap { return g.lacking }

// gapsRemedy is how to get what is lacking.
const gapsRemedy = "name the dataset with --dataset DIR, or pack it again with --originals rebuild"

// FindGaps looks for the gaps of some views.
func FindGaps(s *serve.Server, r *transcode.Registry, views []string) (*Gaps, error) {
	g := &Gaps{server: s, registry: r}
	for _, spec := range views {
		missing, err := g.missing(spec)
		if err != nil {
			return nil, err
		}
		g.Add(spec, missing)
	}
	return g, nil
}

// Add takes note of what a view lacks; the zero Gaps have none.
func (g *Gaps) Add(view string, missing serve.Missing) {
	if missing.Samples > 0 {
		g.lacking = append(g.lacking, Gap{view, missing})
	}
	if missing.Reencoded > 0 {
		g.reencoded = append(g.reencoded, Gap{view, missing})
	}
}

func (g *Gaps) missing(spec string) (serve.Missing, error) {
	v, err := g.registry.ParseRandom(spec)
	if err != nil {
		return serve.Missing{}, err
	}
	return g.server.Missing(v)
}

// First returns the first of some views that lacks nothing. The error says what the
// first one lacks.
func (g *Gaps) First(views ...string) (string, error) {
	var lacks error
	for _, spec := range views {
		missing, err := g.missing(spec)
		switch {
		case err != nil:
			return "", err
		case missing.Samples == 0:
			return spec, nil
		case lacks == nil:
			lacks = Gap{spec, missing}
		}
	}
	return "", lacks
}

// refuse is why a view cannot be entered: it has nothing to show.
func (g *Gaps) refuse(v transcode.Pipeline) error {
	missing, err := g.server.Missing(v)
	if err == nil && missing.All {
		err = Gap{v.String(), missing}
	}
	return err
}

// Error says what the view lacks, and what to do.
func (g Gap) Error() string {
	return fmt.Sprintf("%s; to have them, %s", sentence([]Gap{g}, cannotShow), gapsRemedy)
}

func cannotShow(m serve.Missing) string {
	return fmt.Sprintf("cannot show %d of %s, whose files are not in the store", m.Samples, samples(m.Of))
}

func samples(n int64) string {
	if n == 1 {
		return "1 sample"
	}
	return fmt.Sprintf("%d samples", n)
}

func showsOthers(m serve.Missing) string {
	return fmt.Sprintf("shows the pixels of %s, in other bytes than their files have", samples(m.Reencoded))
}

// Describe says what views lack, what follows from that, and which views show other
// bytes; "" where none lacks anything.
func (g *Gaps) Describe(follows ...string) string {
	if len(g.lacking) == 0 {
		return ""
	}
	said := append([]string{sentence(g.lacking, cannotShow)}, follows...)
	if len(g.reencoded) > 0 {
		said = append(said, sentence(g.reencoded, showsOthers))
	}
	return strings.Join(append(said, "to have the files, "+gapsRemedy), "; ")
}

// Lacks reports whether a view has gaps.
func (g *Gaps) Lacks(view string) bool {
	return slices.ContainsFunc(g.lacking, func(l Gap) bool { return l.View == view })
}

// sentence says something of views; those of which the same is said share it.
func sentence(views []Gap, say func(serve.Missing) string) string {
	var parts []string
	for at := 0; at < len(views); {
		said := say(views[at].Missing)
		var names []string
		for ; at < len(views) && say(views[at].Missing) == said; at++ {
			names = append(names, views[at].View)
		}
		parts = append(parts, strings.Join(names, ", ")+" "+said)
	}
	return strings.Join(parts, "; ")
}
