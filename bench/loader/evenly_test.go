package loader

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEvenly(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	for n, want := range map[int][]string{2: {"a", "d"}, 3: {"a", "c", "e"}, 6: names, 9: names} {
		if diff := cmp.Diff(want, Evenly(names, n)); diff != "" {
			t.Errorf("%d: %s", n, diff)
		}
	}
}
