package mountd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/transcode"
)

// TestCheck refuses what does not go together as an error of usage, and what lies in the place as a
// MountError.
func TestCheck(t *testing.T) {
	testenv.Mounts(t)
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "a.txt"), nil, 0o644))
	for want, change := range map[string]func(*Config){
		"--direct needs --cache daemon":                 func(c *Config) { c.Cache.Direct = true },
		"--mix adaptive needs --cache daemon":           func(c *Config) { c.Views.Mix.Adaptive = true },
		"have one name, and so one path":                func(c *Config) { c.Views.Lists = []string{filepath.Join(root, "a.txt"), "/b/a.txt"} },
		"--dataset goes with a store":                   func(c *Config) { c.Read.Dataset = "/data" },
		"--refresh goes with a store":                   func(c *Config) { c.Read.Refresh = 0 },
		"--masks '*.png' matches no sample":             func(c *Config) { c.Roles.Masks = []string{"*.png"} },
		"place: --store " + root + "/st does not exist": func(c *Config) { c.Read.Store = root + "/st" },
		"place: ": func(c *Config) { c.Dir = root },
	} {
		c := Default(root, t.TempDir())
		change(&c)
		_, err := c.Check(t.Context(), CheckOptions{})
		text, place := strings.CutPrefix(want, "place: ")
		var wrong *usage.Error
		var mount *MountError
		if err == nil || !strings.Contains(err.Error(), text) || errors.As(err, &mount) != place && !errors.As(err, &wrong) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestOpenSourceRefuses what is not what the caller says.
func TestOpenSourceRefuses(t *testing.T) {
	root := t.TempDir()
	for want, o := range map[string]SourceOptions{
		"is no store; pipefs pack makes one":                {Path: root, StoreOnly: true},
		"--dataset goes with a store":                       {Path: root, Dataset: "/data"},
		"--images '*.jpg' matches no sample of":             {Path: root, Roles: transcode.Roles{Images: []string{"*.jpg"}}},
		"credentials do not belong into a URL":              {Path: "s3://me:secret@bucket/ds"},
		"there is no dataset or store at " + root + "/none": {Path: root + "/none"},
	} {
		_, err := OpenSource(t.Context(), o)
		var wrong *usage.Error
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, &wrong) == strings.HasPrefix(want, "there is no") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
