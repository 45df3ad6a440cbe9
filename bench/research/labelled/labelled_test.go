package labelled

import (
	"bytes"
	"fmt"
	"testing"
)

// TestLabelled: the same seed draws the same picture, classes and seeds differ.
func TestLabelled(t *testing.T) {
	seen := map[string]string{}
	for class := range Classes {
		for seed := range uint64(2) {
			a, b := Draw(class, seed), Draw(class, seed)
			what := fmt.Sprintf("class %d, seed %d", class, seed)
			if !bytes.Equal(a.Pix, b.Pix) {
				t.Errorf("%s: drawn twice it differs", what)
			}
			if other := seen[string(a.Pix)]; other != "" {
				t.Errorf("%s is %s", what, other)
			}
			seen[string(a.Pix)] = what
		}
	}
}
