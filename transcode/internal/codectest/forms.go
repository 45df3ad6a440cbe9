package codectest

import (
	"runtime"
	"testing"
)

// Form is one of the forms that code has, in Go and in assembly; Use chooses it.
type Form struct {
	Name string
	Use  func()
}

// Forms are those that there are on this processor. The last one is in use by itself.
type Forms []Form

// FormsOf are the portable form and, where *accelerated says that the processor has it, the
// one for AVX2, or for NEON.
func FormsOf(accelerated *bool) Forms {
	if accelerated == nil || !*accelerated {
		return Forms{{"portable", func() {}}}
	}
	name := "avx2"
	if runtime.GOARCH == "arm64" {
		name = "neon"
	}
	return Forms{{"portable", func() { *accelerated = false }}, {name, func() { *accelerated = true }}}
}

// Each runs a test in all forms. The last one is in use afterwards.
func (f Forms) Each(t *testing.T, test func(t *testing.T)) {
	for _, form := range f {
		t.Run(form.Name, func(t *testing.T) {
			form.Use()
			test(t)
		})
	}
}
