package mountd

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// Why says why p shows a sample unchanged.
func Why(r *transcode.Registry, p transcode.Pipeline, info transcode.Info, plan transcode.Plan) string {
	last := p.Steps()[p.Len()-1]
	switch {
	case info.Mode == transcode.ModeNone:
		return fmt.Sprintf("it is a flavour of %v that pipefs does not read", info.Format)
	case plan.Spared():
		return fmt.Sprintf("a %v file of mode %v may be a mask, which %s would harm; say that it is a picture (--role image, when mounting --images GLOB), or take the view %s", info.Format, info.Mode, p, r.OfPictures(p))
	case info.Animated && !r.Plan(p, info, transcode.Image).Unchanged():
		return "it has several frames, and a view shows one; say that its first frame is the picture (--role image, when mounting --images GLOB)"
	case last.Kind.Format == info.Format:
		return fmt.Sprintf("it is a %v file already, and nothing else is to be done", info.Format)
	}
	return fmt.Sprintf("%s cannot hold a %v file of mode %v without changing its values", last, info.Format, describeMode(info))
}

func describeMode(i transcode.Info) string {
	s := i.Mode.String()
	if i.Transparent {
		s += " with transparency"
	}
	return s
}

// LeftOut names the steps of p that the plan does not take, as the user writes
// them.
func LeftOut(p transcode.Pipeline, plan transcode.Plan) []string {
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

// version is set by the linker to what scripts/version prints.
var version string

// Version is the tag of a release, v0.1.0, or the pseudo-version of another commit, which
// holds the commit. Go itself stamps it into what `go install` and, in a clone, `go build`
// make. Where neither said anything it is "devel".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
