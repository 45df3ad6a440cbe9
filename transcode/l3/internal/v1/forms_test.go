package v1

import "testing"

// form is one of the forms that the steps have; use chooses it.
type form struct {
	name string
	use  func()
}

// eachForm runs a test in all forms. The last one, which is in use elsewhere, is that
// in use afterwards.
func eachForm(t *testing.T, f func(t *testing.T)) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			form.use()
			f(t)
		})
	}
}
