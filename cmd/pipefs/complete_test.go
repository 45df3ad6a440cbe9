package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/testenv"
)

// typed asks what may stand in place of the last word.
func typed(t *testing.T, words ...string) []string {
	t.Helper()
	var out bytes.Buffer
	env := &environ{stdout: &out, stderr: &out}
	testenv.Must(t, dispatch(t.Context(), env, append(append([]string{"pipefs"}, words...), completionFlag)))
	return strings.Fields(out.String())
}

// Each line: what was typed, the last word perhaps empty; candidates that are there. Where there
// are none the shell offers files.
func TestComplete(t *testing.T) {
	for _, c := range []struct{ typed, want string }{
		{"", "mount umount pack"},
		{"mo", "mount"},
		{"mount", "mount"},
		{"help um", "umount"},
		{"mount --cache-b", "--cache-bytes"},
		{"mount --cache ", "page daemon"},
		{"mount --cache d", "daemon"},
		{"mount --cache=", "--cache=page --cache=daemon"},
		{"mount --mix ", "all adaptive"}, // SHARE stands for a number
		{"mount --fidelity ", "1 10"},
		{"mount --list-view resize256-n", "resize256-npy"},
		{"mount -o ", "cache= immutable ro"},
		{"mount -o ro,cache=", "ro,cache=page ro,cache=daemon"},
		{"mount -o allow-o", "allow-other"},
		{"views d ", "original scan1 scan10 bmp half- resize256-"},
		{"views d bmp resize256-", "resize256-npy resize256-grey-"},
		{"export s resize256-crop224-jp", "resize256-crop224-jpeg90"},
		{"export s bmp-", "bmp-own"},
		{"bench d --views bmp,scan5,pp", "bmp,scan5,ppm"},
		{"convert --view np", "npy"},
		{"cache ", "list clear limit"},
		{"fidelity m ", "1 10"},
		{"completion ", "bash zsh fish"},
	} {
		words := strings.Split(c.typed, " ")
		got := typed(t, words...)
		for _, found := range got {
			if !strings.HasPrefix(found, words[len(words)-1]) {
				t.Errorf("%q: %q does not begin with the last word", c.typed, found)
			}
		}
		for want := range strings.FieldsSeq(c.want) {
			if !slices.Contains(got, want) {
				t.Errorf("%q: %q is missing: %q", c.typed, want, got)
			}
		}
	}
}

func TestCompleteOffersNothing(t *testing.T) {
	for _, line := range []string{"frob ", "mount ", "mount a b ", "mount --immutable ", "mount --log-file ", "mount -oro d ", "mount --cache-bytes ", "mount --frob=", "mount -- ", "mount -- --", "completion bash ", "version x"} {
		if got := typed(t, strings.Split(line, " ")...); len(got) > 0 {
			t.Errorf("%q: %q", line, got)
		}
	}
}

// Every command, flag and example has its place in the manual.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	testenv.Must(t, dispatch(t.Context(), nowhere, []string{"pipefs", "man", dir}))
	page, err := os.ReadFile(filepath.Join(dir, "man1/pipefs.1"))
	testenv.Must(t, err)
	if title := fmt.Sprintf(".TH PIPEFS 1 1970-01-02 %q", "pipefs "+mountd.Version()); !strings.HasPrefix(string(page), title) {
		t.Errorf("the page begins with %.100q, want %s", page, title)
	}
	text := strings.NewReplacer(`\-`, "-", `\&`, "", `\e`, `\`).Replace(string(page))
	for _, c := range commandsOf(nowhere) {
		if !strings.Contains(text, "\n.SH "+c.Name) && !strings.Contains(text, "\n.SS "+c.Name) {
			t.Errorf("no section %s", c.Name)
		}
		for _, f := range c.Flags {
			if !strings.Contains(text, dashed(f.Names()[0])) {
				t.Errorf("%s lacks %s", c.Name, f.Names()[0])
			}
		}
		for line := range strings.Lines(c.UsageText) {
			if line := strings.TrimSpace(line); !strings.HasPrefix(line, "#") && !strings.Contains(text, line) {
				t.Errorf("%s lacks the example %s", c.Name, line)
			}
		}
	}
	if other, err := os.ReadFile(filepath.Join(dir, "man8/mount.pipefs.8")); err != nil || string(other) != ".so man1/pipefs.1\n" {
		t.Errorf("%s, %v", other, err)
	}
}

// The help of the program fits a screen, and each command a line.
func TestHelpFits(t *testing.T) {
	for args, most := range map[string]int{"": 30, "--help": 60} {
		var out bytes.Buffer
		testenv.Must(t, dispatch(t.Context(), &environ{stdout: &out}, append([]string{"pipefs"}, strings.Fields(args)...)))
		if n := strings.Count(out.String(), "\n"); n > most {
			t.Errorf("pipefs %s prints %d lines", args, n)
		}
	}
	for _, c := range commandsOf(nowhere) {
		var out bytes.Buffer
		testenv.Must(t, dispatch(t.Context(), &environ{stdout: &out}, []string{"pipefs", c.Name, "--help"}))
		for line := range strings.Lines(out.String()) {
			// examples are commands, and are not broken
			if n := len([]rune(line)); n > human.HelpWidth+3 && !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: %d columns: %s", c.Name, n, line)
			}
		}
		if n := strings.Count(out.String(), "\n  -"); c.Name == "mount" && n > 40 {
			t.Errorf("mount has %d flags that are often needed", n)
		}
		for _, f := range c.Flags {
			if d := f.(cli.DocGenerationFlag); d.GetUsage() == "" {
				t.Errorf("%s %s has no help", c.Name, d.Names()[0])
			}
		}
		if c.UsageText == "" {
			t.Errorf("%s has no example", c.Name)
		}
		if len(c.Usage) > 60 || c.Category == "" {
			t.Errorf("%s, of category %q: %q has %d characters, want 60 at most", c.Name, c.Category, c.Usage, len(c.Usage))
		}
	}
}
