package main

import (
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// cause is why a view shows a sample unchanged.
type cause uint8

const (
	changed   cause = iota
	same            // it already is what the view makes
	perhaps         // it may be a mask, and the view would harm it
	animated        // it has several frames
	unfitting       // the view's format cannot hold it
	unknown         // no codec reads its flavour
)

// causeOf finds out why, by asking what would happen to the sample otherwise.
func causeOf(r *transcode.Registry, p transcode.Pipeline, info transcode.Info, role transcode.Role) cause {
	if p.Len() == 0 {
		return same
	}
	if !r.Plan(p, info, role).Unchanged() {
		return changed
	}
	last := p.Steps()[p.Len()-1]
	switch {
	case info.Mode == transcode.ModeNone:
		return unknown
	case !r.Plan(p, info, transcode.Image).Unchanged():
		if info.Animated {
			return animated
		}
		return perhaps
	case last.Kind.Format == info.Format:
		return same
	}
	return unfitting
}

// why says it to the user.
func why(c cause, p transcode.Pipeline, info transcode.Info) string {
	last := p.String()
	if p.Len() > 0 {
		last = p.Steps()[p.Len()-1].String()
	}
	switch c {
	case same:
		return fmt.Sprintf("it is a %v file already, and nothing else is to be done", info.Format)
	case perhaps:
		return fmt.Sprintf("a %v file of mode %v may be a mask, which %s would harm; say that it is a picture (--role image, when mounting --images GLOB)", info.Format, info.Mode, p)
	case animated:
		return "it has several frames, and a view shows one; say that its first frame is the picture (--role image, when mounting --images GLOB)"
	case unfitting:
		return fmt.Sprintf("%s cannot hold a %v file of mode %v without changing its values", last, info.Format, describeMode(info))
	case unknown:
		return fmt.Sprintf("it is a flavour of %v that pipefs does not read", info.Format)
	}
	return ""
}

func describeMode(i transcode.Info) string {
	s := i.Mode.String()
	if i.Transparent {
		s += " with transparency"
	}
	return s
}

// leftOut names the steps of p that the plan does not take, as the user writes
// them.
func leftOut(p transcode.Pipeline, plan transcode.Plan) []string {
	taken, _, _ := strings.Cut(plan.Key(), "@")
	has := map[string]bool{}
	for word := range strings.SplitSeq(taken, "-") {
		has[strings.TrimSuffix(word, "~")] = true
	}
	var out []string
	for word := range strings.SplitSeq(p.String(), "-") {
		if !has[word] {
			out = append(out, word)
		}
	}
	if _, scans := plan.Head(); scans && plan.Len() == 1 { // its key has no argument
		return nil
	}
	return out
}
