package testenv

import (
	"encoding/hex"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	updateExample = flag.Bool("update-example", false, "write the bytes into the page that shows them")
	dumped        = regexp.MustCompile("(?s)```\n(.*?)```\n")
)

// Example wants a page to show these bytes: its only block of code is their dump.
func Example(t *testing.T, page string, b []byte) {
	t.Helper()
	text, err := os.ReadFile(page)
	Must(t, err)
	dump := hex.Dump(b)
	found := dumped.FindSubmatchIndex(text)
	switch {
	case found == nil:
		t.Fatalf("%s has no block of code", page)
	case string(text[found[2]:found[3]]) == dump:
	case *updateExample:
		Must(t, os.WriteFile(page, []byte(string(text[:found[2]])+dump+string(text[found[3]:])), 0o644))
	default:
		t.Errorf("%s does not show these bytes; if the format changed on purpose, run the test with -update-example and mend the notes\n%s", page, strings.TrimSpace(dump))
	}
}
