package transcode

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Roles says which samples are pictures and which are masks, by glob patterns. As in
// .gitignore, a pattern without a slash matches the name of a sample in any directory;
// one with a slash matches its whole path in the dataset, where `**` crosses
// directories and a slash in front changes nothing else. The zero value leaves every
// sample to its mode.
type Roles struct {
	Images, Masks []string
}

// Given reports whether there is any pattern.
func (r Roles) Given() bool { return len(r.Images)+len(r.Masks) > 0 }

// Check returns an error that names the first malformed pattern.
func (r Roles) Check() error {
	for _, pattern := range r.all() {
		if !doublestar.ValidatePattern(pattern) {
			return fmt.Errorf("glob pattern %q is malformed", pattern)
		}
	}
	return nil
}

// Of returns the role of the sample at path. A sample that both lists name is a
// mask, the choice that harms nothing.
func (r Roles) Of(path string) Role {
	switch {
	case slices.ContainsFunc(r.Masks, matches(path)):
		return Mask
	case slices.ContainsFunc(r.Images, matches(path)):
		return Image
	}
	return Auto
}

// Unmatched returns the patterns that match none of the samples. It asks for no more
// samples once each pattern has matched one.
func (r Roles) Unmatched(samples iter.Seq[string]) []string {
	left := r.all()
	if len(left) == 0 {
		return nil
	}
	for sample := range samples {
		if left = slices.DeleteFunc(left, matches(sample)); len(left) == 0 {
			break
		}
	}
	return left
}

func (r Roles) all() []string { return slices.Concat(r.Images, r.Masks) }

// matches is the function that tells whether a pattern matches a path.
func matches(name string) func(pattern string) bool {
	return func(pattern string) bool {
		if strings.Contains(pattern, "/") {
			ok, _ := doublestar.Match(strings.TrimPrefix(pattern, "/"), name)
			return ok
		}
		ok, _ := doublestar.Match(pattern, path.Base(name))
		return ok
	}
}
