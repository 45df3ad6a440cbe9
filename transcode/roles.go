package transcode

import (
	"fmt"

	"github.com/bmatcuk/doublestar/v4"
)

// Roles says which samples are pictures and which are masks, by glob patterns
// over their paths in the dataset (`**` crosses directories). The zero value
// leaves every sample to its mode.
type Roles struct {
	Images, Masks []string
}

// Check returns an error that names the first malformed pattern.
func (r Roles) Check() error {
	for _, patterns := range [][]string{r.Images, r.Masks} {
		for _, pattern := range patterns {
			if !doublestar.ValidatePattern(pattern) {
				return fmt.Errorf("glob pattern %q is malformed", pattern)
			}
		}
	}
	return nil
}

// Of returns the role of the sample at path. A sample that both lists name is a
// mask, the choice that harms nothing.
func (r Roles) Of(path string) Role {
	switch {
	case matchAny(r.Masks, path):
		return Mask
	case matchAny(r.Images, path):
		return Image
	}
	return Auto
}

func matchAny(patterns []string, path string) bool {
	for _, pattern := range patterns {
		if ok, _ := doublestar.Match(pattern, path); ok {
			return true
		}
	}
	return false
}
