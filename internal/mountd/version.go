package mountd

import "runtime/debug"

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
