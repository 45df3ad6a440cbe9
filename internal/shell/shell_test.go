package shell

import "testing"

func TestWord(t *testing.T) {
	for name, want := range map[string]string{
		"/mnt/resize256-npy": "/mnt/resize256-npy",
		"/mnt/my set":        "'/mnt/my set'",
		"/it's/$HOME":        `'/it'\''s/$HOME'`,
		"it's":               `'it'\''s'`,
		"/größe":             "'/größe'",
	} {
		if got := Word(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
