package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// Each line: what was typed, the last word perhaps empty; candidates that are there.
func TestComplete(t *testing.T) {
	for _, c := range []struct{ typed, want string }{
		{"", "mount umount pack help --version"},
		{"mo", "mount"},
		{"help um", "umount"},
		{"mount --cache-b", "--cache-bytes"},
		{"mount --cache ", "page daemon"},
		{"mount --cache d", "daemon"},
		{"mount --cache=", "--cache=page --cache=daemon"},
		{"mount --mix ", "all adaptive"}, // SHARE stands for a number
		{"mount --fidelity ", "1 10"},
		{"mount --immutable ", ":dirs"}, // takes no value
		{"mount ", ":dirs"},
		{"mount -o ", "cache= immutable ro"},
		{"mount -oro d ", ":dirs"},
		{"mount -o ro,cache=", "ro,cache=page ro,cache=daemon"},
		{"mount -o allow_o", "allow_other"},
		{"mount --log-file ", ":files"},
		{"mount -- --", ":dirs"},
		{"views d ", "original scan1 scan10 bmp half- resize256-"},
		{"views d bmp resize256-", "resize256-npy resize256-grey-"},
		{"export s resize256-crop224-jp", "resize256-crop224-jpeg90"},
		{"export s bmp-", "bmp-own"},
		{"bench d --views bmp,scan5,pp", "bmp,scan5,ppm"},
		{"convert --view np", "npy"},
		{"convert ", ":files"},
		{"cache ", "list clear limit"},
		{"cache clear ", ":dirs"},
		{"fidelity m ", "1 10"},
		{"completion ", "bash zsh fish"},
	} {
		words := strings.Split(c.typed, " ")
		var got []string
		for _, found := range newCompleter(commandsOf(nowhere)).complete(words) {
			if !strings.HasPrefix(found.word, words[len(words)-1]) && !strings.HasPrefix(found.word, ":") {
				t.Errorf("%q: %q does not begin with the last word", c.typed, found.word)
			}
			got = append(got, found.word)
		}
		for want := range strings.FieldsSeq(c.want) {
			if !slices.Contains(got, want) {
				t.Errorf("%q: %q is missing: %q", c.typed, want, got)
			}
		}
	}
}

func TestCompleteOffersNothing(t *testing.T) {
	for _, typed := range []string{"frob ", "mount a b ", "mount --cache-bytes ", "mount --frob=", "completion bash ", "version x"} {
		if got := newCompleter(commandsOf(nowhere)).complete(strings.Split(typed, " ")); len(got) > 0 {
			t.Errorf("%q: %q", typed, got)
		}
	}
}

// A candidate is one line, its meaning behind a tab.
func TestCompletionLines(t *testing.T) {
	var out bytes.Buffer
	testenv.Must(t, dispatch(t.Context(), &environ{stdout: &out, stderr: &out}, []string{"pipefs", completionWord, "mount", "--ca"}))
	for line := range strings.Lines(out.String()) {
		word, means, ok := strings.Cut(line, "\t")
		if !ok || !strings.HasPrefix(word, "--cache") || means == "\n" {
			t.Errorf("line %q", line)
		}
	}
	if !strings.HasPrefix(out.String(), "--cache\twhere samples are cached") {
		t.Errorf("got %s", &out)
	}
}

// Every command, option and example has its place in the manual, and nothing in a text is
// taken for a macro.
func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	commands := commandsOf(nowhere)
	pages := map[string]string{}
	for _, p := range manPages(commands) {
		pages[p.name+"."+p.section] = p.String()
		for line := range strings.Lines(p.String()) {
			if macro, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".PP", ".TP"}, macro) {
				t.Errorf("%s: a line begins with %q", p.name, macro)
			}
		}
		if !strings.Contains(p.String(), " 1970-01-01 ") {
			t.Errorf("%s has another date:\n%.100s", p.name, p)
		}
	}
	for _, c := range commands {
		page := pages["pipefs-"+c.name+".1"]
		for _, o := range c.options {
			if !strings.Contains(page, ".TP\n\\fB"+roff(o.heading())+"\\fR\n") {
				t.Errorf("%s lacks %s", c.name, o.heading())
			}
			if !o.flagOnly && c.name == "mount" && !strings.Contains(pages["mount.pipefs.8"], "\\fB"+roff(o.name)) {
				t.Errorf("mount.pipefs lacks %s", o.name)
			}
		}
		for _, e := range c.examples {
			if !strings.Contains(page, roff(e.line)) {
				t.Errorf("%s lacks the example %s", c.name, e.line)
			}
		}
		if !strings.Contains(pages["pipefs.1"], roff("pipefs-"+c.name+"(1)")) {
			t.Errorf("pipefs(1) does not name %s", c.name)
		}
	}
}
