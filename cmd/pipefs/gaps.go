package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// gaps tells which views of a store lack samples, because neither the store nor a
// dataset has what they would show.
type gaps struct {
	producer *serve.Server
	registry *transcode.Registry
	lacking  []gap // in the order in which they were asked for
	// reencoded are the views that show other bytes than with the dataset.
	reencoded []gap
}

// gap is one view.
type gap struct {
	view string
	serve.Missing
}

// gapsRemedy is how to get what is lacking.
const gapsRemedy = "name the dataset with --dataset DIR, or pack it again with --originals rebuild"

// gaps is findGaps for the usual views of a source, and others.
func (s *input) gaps(env *environ, l transcode.Limits, others ...string) (*gaps, error) {
	r := s.registry(l)
	p, err := s.producer(env, r, transcode.Roles{})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return findGaps(p, r, unique(append(usualViews(r), others...)))
}

func findGaps(p *serve.Server, r *transcode.Registry, views []string) (*gaps, error) {
	g := &gaps{producer: p, registry: r}
	for _, spec := range views {
		missing, err := g.missing(spec)
		if err != nil {
			return nil, err
		}
		g.add(spec, missing)
	}
	return g, nil
}

func (g *gaps) add(view string, missing serve.Missing) {
	if missing.Samples > 0 {
		g.lacking = append(g.lacking, gap{view, missing})
	}
	if missing.Reencoded > 0 {
		g.reencoded = append(g.reencoded, gap{view, missing})
	}
}

func (g *gaps) missing(spec string) (serve.Missing, error) {
	v, err := g.registry.Parse(spec)
	if err != nil {
		return serve.Missing{}, err
	}
	return g.producer.Missing(v)
}

// first returns the first of some views that lacks nothing. The error says what the
// first one lacks.
func (g *gaps) first(views ...string) (string, error) {
	var lacks error
	for _, spec := range views {
		missing, err := g.missing(spec)
		switch {
		case err != nil:
			return "", err
		case missing.Samples == 0:
			return spec, nil
		case lacks == nil:
			lacks = gap{spec, missing}
		}
	}
	return "", lacks
}

// refuse is why a view cannot be entered: it has nothing to show.
func (g *gaps) refuse(v transcode.Pipeline) error {
	missing, err := g.producer.Missing(v)
	if err == nil && missing.All {
		err = gap{v.String(), missing}
	}
	return err
}

// Error says what the view lacks, and what to do.
func (g gap) Error() string {
	return fmt.Sprintf("%s; to have them, %s", sentence([]gap{g}, cannotShow), gapsRemedy)
}

func cannotShow(m serve.Missing) string {
	return fmt.Sprintf("cannot show %s of %s, whose files are not in the store", formatCount(int(m.Samples)), plural(int(m.Of), "sample", "samples"))
}

func showsOthers(m serve.Missing) string {
	return fmt.Sprintf("shows the pixels of %s, in other bytes than their files have", plural(int(m.Reencoded), "sample", "samples"))
}

// describe says what views lack, what follows from that, and which views show other
// bytes; "" where none lacks anything.
func (g *gaps) describe(follows ...string) string {
	if len(g.lacking) == 0 {
		return ""
	}
	said := append([]string{sentence(g.lacking, cannotShow)}, follows...)
	if len(g.reencoded) > 0 {
		said = append(said, sentence(g.reencoded, showsOthers))
	}
	return strings.Join(append(said, "to have the files, "+gapsRemedy), "; ")
}

func (g *gaps) lacks(view string) bool {
	return slices.ContainsFunc(g.lacking, func(l gap) bool { return l.view == view })
}

// sentence says something of views; those of which the same is said share it.
func sentence(views []gap, say func(serve.Missing) string) string {
	var parts []string
	for at := 0; at < len(views); {
		said := say(views[at].Missing)
		var names []string
		for ; at < len(views) && say(views[at].Missing) == said; at++ {
			names = append(names, views[at].view)
		}
		parts = append(parts, strings.Join(shortened(names), ", ")+" "+said)
	}
	return strings.Join(parts, "; ")
}

// shortened names a run of fidelities by its ends.
func shortened(names []string) (short []string) {
	for at := 0; at < len(names); {
		end := at
		for end < len(names) && isFidelity(names[end]) {
			end++
		}
		if end-at < 3 {
			end = at + 1
			short = append(short, names[at])
		} else {
			short = append(short, names[at]+" … "+names[end-1])
		}
		at = end
	}
	return short
}

func isFidelity(view string) bool {
	digits, ok := strings.CutPrefix(view, "scan")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
