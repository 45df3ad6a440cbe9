package transcode_test

import (
	"slices"
	"testing"

	"github.com/pipefs/pipefs/transcode"
)

// TestRoles says which samples a pattern means.
func TestRoles(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*_mask.png", "a_mask.png", true},
		{"*_mask.png", "train/cats/a_mask.png", true},
		{"*_mask.png", "a_mask.png/a.png", false},
		{"c.png", "deep/er/c.png", true},
		{"**", "deep/er/c.png", true},
		{"{a,b}.png", "x/b.png", true},
		{"labels", "labels/a.png", false},
		{"labels/*.png", "labels/a.png", true},
		{"labels/*.png", "x/labels/a.png", false},
		{"labels/*.png", "labels/x/a.png", false},
		{"labels/**", "labels/x/a.png", true},
		{"**/labels/**", "x/labels/y/a.png", true},
		{"/a.png", "a.png", true},
		{"/a.png", "x/a.png", false},
		{"/labels/**", "labels/a.png", true},
		{`a\[1\].png`, "x/a[1].png", true},
	} {
		for want, roles := range map[transcode.Role]transcode.Roles{
			transcode.Image: {Images: []string{"*.none", c.pattern}},
			transcode.Mask:  {Masks: []string{"*.none", c.pattern}, Images: []string{"**"}},
		} {
			if err := roles.Check(); err != nil {
				t.Errorf("%q: %v", c.pattern, err)
			}
			if got := roles.Of(c.path); (got == want) != c.want {
				t.Errorf("%q of %q: role %d", c.pattern, c.path, got)
			}
		}
	}
}

// TestUnmatched wants the patterns that match nothing, and no more looking than that
// takes.
func TestUnmatched(t *testing.T) {
	samples := []string{"a.jpg", "x/a_mask.png", "x/b.jpg", "y/c.jpg"}
	for _, c := range []struct {
		roles transcode.Roles
		want  []string
		looks int
	}{
		{transcode.Roles{}, nil, 0},
		{transcode.Roles{Images: []string{"*.jpg"}}, nil, 1},
		{transcode.Roles{Images: []string{"*.jpg"}, Masks: []string{"*_mask.png"}}, nil, 2},
		{transcode.Roles{Images: []string{"*.jpeg"}, Masks: []string{"x/*", "z/*"}}, []string{"*.jpeg", "z/*"}, 4},
	} {
		before := slices.Concat(c.roles.Images, c.roles.Masks)
		looks := 0
		got := c.roles.Unmatched(func(yield func(string) bool) {
			for _, s := range samples {
				if looks++; !yield(s) {
					return
				}
			}
		})
		if !slices.Equal(got, c.want) || looks != c.looks {
			t.Errorf("%v: %q after %d samples, want %q after %d", c.roles, got, looks, c.want, c.looks)
		}
		if !slices.Equal(before, slices.Concat(c.roles.Images, c.roles.Masks)) {
			t.Errorf("%v: the roles were changed", c.roles)
		}
	}
}
