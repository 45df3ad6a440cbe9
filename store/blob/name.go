package blob

import (
	"fmt"
	"io/fs"
	"strings"
)

// reserved begins the names of files that a place makes for itself: unfinished objects and
// locks. No object has such a name, and none is listed.
const reserved = ".pipefs-"

// checkName refuses what is no name of an object: one that is not a clean relative path, or one
// that is reserved.
func checkName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%q is no name of an object: it is a relative path in UTF-8, and no part of it is . or empty", name)
	}
	if isReserved(name) {
		return fmt.Errorf("%q is no name of an object: names that begin with %s are reserved", name, reserved)
	}
	return nil
}

// pageSize is how many objects a page of a list has at most.
const pageSize = 1000

// isReserved reports whether an object is none of the user's.
func isReserved(name string) bool {
	return strings.HasPrefix(name[strings.LastIndexByte(name, '/')+1:], reserved)
}
