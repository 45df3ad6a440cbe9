package survey

import (
	"fmt"
	"path/filepath"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/shell"
	"github.com/pipefs/pipefs/internal/source"
)

// NoPictures says what a tree without pictures is; "" is for any other.
func NoPictures(l mountd.Listing, path string) string {
	switch {
	case len(l.Samples) > 0:
		return ""
	case l.Archive != "":
		return fmt.Sprintf("%s has no pictures that pipefs knows: all views show its %s unchanged, such as %s. That is %s",
			path, human.Plural(l.Others, "file", "files"), l.Archive, source.Archive(l.Archive, shell.Word(filepath.Join(path, l.Archive))))
	case l.Others > 0:
		return fmt.Sprintf("%s has no pictures that pipefs knows: all views show its %s unchanged", path, human.Plural(l.Others, "file", "files"))
	case l.Dirs > 0:
		return fmt.Sprintf("%s is empty: there are directories in it, and no file", path)
	}
	return fmt.Sprintf("%s is empty: there is no file in it", path)
}

// RebuildCost is measured, see docs/benchmarks.md.
const RebuildCost = "about 2 to 3 ms of CPU each (photographs of 110 kB)"

// Rebuilt says how many originals a mount of the store rebuilds, what that costs and what
// helps; "" where it rebuilds none.
func Rebuilt(s *mountd.Source) (string, error) {
	n, err := s.Rebuilt()
	if err != nil || n == 0 {
		return "", err
	}
	return fmt.Sprintf("original/ rebuilds %s from scans when they are first read, at %s; --dataset DIR reads the files instead, and so does a store packed with --originals keep",
		human.Plural(n, "JPEG file", "JPEG files"), RebuildCost), nil
}
