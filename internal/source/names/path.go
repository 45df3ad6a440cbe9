package names

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pipefs/pipefs/internal/source"
)

// maxPart is the longest name of a file or directory, in bytes.
const maxPart = 255

// Unfit says why the name of an object is no path; empty where it is one.
func Unfit(name string) string {
	if !utf8.ValidString(name) {
		return "it is no UTF-8"
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "it has a zero byte"
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return "a part of it is empty"
		case part == ".", part == "..":
			return "a part of it is " + part
		case len(part) > maxPart:
			return "a part of it has more than 255 bytes"
		}
	}
	return ""
}

// sortEntries sorts by name. A directory hides a file of its name.
func sortEntries(entries []source.Entry) []source.Entry {
	slices.SortFunc(entries, func(a, b source.Entry) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return cmp.Compare(rank(a), rank(b))
	})
	return slices.CompactFunc(entries, func(a, b source.Entry) bool { return a.Name == b.Name })
}

func rank(e source.Entry) int {
	if e.Dir {
		return 0
	}
	return 1
}
