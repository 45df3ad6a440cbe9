// Package annotation tells files that say where things are in pictures.
//
// An annotation file has boxes, polygons or points, in the form of Pascal VOC, COCO,
// LabelMe or YOLO. It belongs to the picture of the same name in the same directory or in a
// directory beside it, or, as one JSON file for many pictures, to the pictures that it names.
package annotation

import (
	"bytes"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Counts is what the coordinates of an annotation file count.
type Counts uint8

// What they count.
const (
	Nothing  Counts = iota // it is no annotation file
	Pixels                 // of the picture
	Relative               // to the sides of the picture, from 0 to 1
)

// Extensions of annotation files.
var Extensions = []string{".xml", ".txt", ".json"}

// directories are names that are usual for directories of annotation files and masks, in
// lower case.
var directories = []string{
	"labels", "annotations", "annotation", "ann", "masks", "mask", "segmentationclass", "segmentationobject", "segmentations",
}

// IsDirectory reports whether a directory has a name that is usual for directories of
// annotation files and masks.
func IsDirectory(name string) bool { return slices.Contains(directories, strings.ToLower(name)) }

// Pascal VOC; COCO, LabelMe; YOLO: a class, and a box or a polygon of numbers up to 1.
var (
	vocBox  = []byte("<bndbox>")
	jsonBox = regexp.MustCompile(`"(bbox|segmentation|keypoints|points)"\s*:\s*[\[{]`)
	yoloBox = regexp.MustCompile(`^\s*\d+(\s+(0|1|[01]?\.\d+([eE]-\d+)?)){4,}\s*(\n|$)`)
	picture = regexp.MustCompile(`"file_name"\s*:\s*"([^"\\]+)"`)
)

// Of tells what a file is by its name and its [Ends].
func Of(name string, ends []byte) Counts {
	switch ext := strings.ToLower(path.Ext(name)); {
	case ext == ".xml" && bytes.Contains(ends, vocBox), ext == ".json" && jsonBox.Match(ends):
		return Pixels
	case ext == ".txt" && yoloBox.Match(ends):
		return Relative
	}
	return Nothing
}

// Pictures are the names, without directories, of pictures that a JSON file names in its
// [Ends], as COCO does.
func Pictures(ends []byte) (names []string) {
	for _, m := range picture.FindAllSubmatch(ends, -1) {
		names = append(names, path.Base(string(m[1])))
	}
	return names
}

// endBytes is how much is looked at from the beginning of a file, and from its end.
const endBytes = 64 << 10

// Ends reads the beginning of a file, and its end.
func Ends(r io.ReaderAt, size int64) ([]byte, error) {
	return io.ReadAll(io.MultiReader(io.NewSectionReader(r, 0, endBytes), io.NewSectionReader(r, max(endBytes, size-endBytes), endBytes)))
}
