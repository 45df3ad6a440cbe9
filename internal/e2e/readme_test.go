package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestViewsInDocs wants every view that a page for users writes as a directory to exist.
func TestViewsInDocs(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	span := regexp.MustCompile("`(?:~/m/|MNT/)?([a-z0-9.][a-z0-9./-]*)/`")
	// not views, but links and directories of other things
	others := map[string]bool{"mix": true, "auto": true, "current": true, "val": true, ".pipefs/gpu": true, "~": true}
	for _, page := range []string{"README.md", "docs/operations.md", "docs/recipes.md", "docs/reference.md", "docs/python.md", "docs/epoch.md", "docs/loaders.md"} {
		text, err := os.ReadFile("../../" + page)
		testenv.Must(t, err)
		found := 0
		for _, m := range span.FindAllStringSubmatch(string(text), -1) {
			if name := strings.TrimSuffix(m[1], "/"); !others[name] {
				found++
				_, err := r.ParsePath(name)
				if below, ok := strings.CutPrefix(name, ".epoch/"); ok {
					var p epoch.Path
					if p, err = epoch.ParsePath(strings.Split(below, "/")); err == nil {
						_, err = r.ParseRandom(p.View)
					}
				}
				if err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
		t.Logf("%s names %d views", page, found)
	}
}
