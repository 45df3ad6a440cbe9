package serve

import (
	"bytes"
	"context"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// A random view shows another part of a picture in each epoch, and files with boxes or masks
// are shown as they are: what they say is wrong there. So a random view looks for such files
// beside a few samples of each directory, once, and refuses a directory of which one has them,
// unless Options.ForceRandom is set.
//
// Beside a sample are files of its own name in its directory, in a directory with a usual
// name (see package annotation) that stands in place of one of those that lead to the sample,
// or next to it: labels/train/1.txt belongs to images/train/1.jpg, Annotations/1.xml to
// JPEGImages/1.jpg. Beside it are also JSON files that name it, in those directories.

const (
	besideLooked = 8  // samples of a directory for which files are looked for
	besideFiles  = 8  // JSON files of a directory that are looked at, and directories below it
	besidePlaces = 32 // directories in which files are looked for
	maxSurrounds = 1 << 10
)

// beside is what was found beside the samples of a directory.
type beside struct {
	once         sync.Once
	sample, file string // paths; empty where there is nothing
}

// surround is what a directory holds that may belong to samples below it.
type surround struct {
	once sync.Once
	dirs []surroundDir
	many []collection
}

// surroundDir is a directory with a usual name, and some of the directories in it.
type surroundDir struct {
	path  string
	below []string
}

// collection is a JSON file that names many pictures.
type collection struct {
	file     string
	pictures []string
	boxes    bool // it says where things are in them
}

// maskSuffixes and maskExtensions make the names of masks from that of their picture.
var (
	maskSuffixes   = []string{"", "_mask"}
	maskExtensions = []string{".png", ".bmp", ".tif", ".tiff"}
)

// guardRandom refuses a sample for which a random view would draw what does not fit the
// annotations.
func (s *Server) guardRandom(f File, v transcode.Pipeline, role transcode.Role) error {
	dir := dirOf(f.Path)
	if !v.Random() || s.o.ForceRandom {
		return nil
	}
	if role == transcode.Mask {
		if len(s.o.Roles.PicturesOf(f.Path)) > 0 {
			return nil
		}
		return s.refusals.known(&Refusal{Dir: dir, View: v.String(), Example: f.Path, Random: true})
	}
	return s.refusalRandom(dir, v)
}

func (s *Server) refusalRandom(dir string, v transcode.Pipeline) error {
	b := remembered(&s.refusals, s.refusals.beside, dir)
	b.once.Do(func() { b.sample, b.file = s.findBeside(dir) })
	if b.file == "" {
		return nil
	}
	return s.refusals.known(&Refusal{Dir: dir, View: v.String(), Example: b.sample, Beside: b.file, Random: true})
}

// findBeside looks for a file that belongs to a sample of a directory.
func (s *Server) findBeside(dir string) (sample, file string) {
	entries, err := s.List(dir)
	if err != nil {
		return "", ""
	}
	var samples []string
	here := map[string]bool{}
	for _, e := range entries {
		if !e.Dir {
			here[e.Name] = true
			if s.o.Registry.IsSample(e.Name) {
				samples = append(samples, e.Name)
			}
		}
	}
	if len(samples) == 0 {
		return "", ""
	}
	for at := dir; ; at, entries = dirOf(at), nil {
		for _, c := range s.surround(at, entries).many {
			for _, name := range c.pictures {
				if c.boxes && here[name] {
					return path.Join(dir, name), c.file
				}
			}
		}
		if at == "" {
			break
		}
	}
	places := s.places(dir)
	for _, name := range scattered(samples, min(besideLooked, len(samples))) {
		for _, other := range namesBeside(name) {
			if here[other] && s.annotates(path.Join(dir, other)) {
				return path.Join(dir, name), path.Join(dir, other)
			}
		}
		for _, place := range places {
			for _, other := range append(namesBeside(name), name) {
				if s.annotates(path.Join(place, other)) {
					return path.Join(dir, name), path.Join(place, other)
				}
			}
		}
	}
	return "", ""
}

// namesBeside are the names, other than its own, of files that may belong to a sample.
func namesBeside(name string) (names []string) {
	stem := strings.TrimSuffix(name, path.Ext(name))
	for _, ext := range AnnotationExtensions {
		names = append(names, stem+ext, name+ext)
	}
	for _, suffix := range maskSuffixes {
		for _, ext := range maskExtensions {
			names = append(names, stem+suffix+ext)
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == name })
}

// places are the directories in which files may belong to the samples of a directory.
func (s *Server) places(dir string) (places []string) {
	add := func(place string) {
		if place != dir && len(places) < besidePlaces && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	for at, rest := dir, ""; ; at, rest = dirOf(at), path.Join(path.Base(at), rest) {
		_, below, _ := strings.Cut(rest, "/")
		for _, d := range s.surround(at, nil).dirs {
			add(path.Join(d.path, below)) // in place of the first one of rest
			add(path.Join(d.path, rest))
			if below == "" {
				for _, sub := range d.below {
					add(sub)
				}
			}
		}
		if at == "" {
			return places
		}
	}
}

// surround is what a directory holds, after looking at it if nobody did yet. Its members are
// listed where entries is nil.
func (s *Server) surround(dir string, entries []source.Entry) *surround {
	u := remembered(&s.refusals, s.refusals.surrounds, dir)
	u.once.Do(func() {
		if entries == nil {
			entries, _ = s.List(dir)
		}
		u.many = s.collections(dir, entries, nil)
		for _, e := range entries {
			if !e.Dir || !IsAnnotationDirectory(e.Name) {
				continue
			}
			d := surroundDir{path: path.Join(dir, e.Name)}
			members, _ := s.List(d.path)
			u.many = append(u.many, s.collections(d.path, members, &d.below)...)
			u.dirs = append(u.dirs, d)
		}
	})
	return u
}

// collections looks at some of the JSON files of a directory, and names some of the
// directories in it.
func (s *Server) collections(dir string, entries []source.Entry, below *[]string) (found []collection) {
	looked := 0
	for _, e := range entries {
		switch {
		case e.Dir && below != nil && len(*below) < besideFiles:
			*below = append(*below, path.Join(dir, e.Name))
		case !e.Dir && strings.EqualFold(path.Ext(e.Name), ".json") && looked < besideFiles:
			looked++
			name := path.Join(dir, e.Name)
			text := s.ends(context.Background(), name)
			found = append(found, collection{name, annotatedPictures(text), annotationOf(name, text) != NoAnnotation})
		}
	}
	return found
}

// annotates reports whether a file is there and has boxes, or is a mask.
func (s *Server) annotates(name string) bool {
	if !s.o.Registry.IsSample(name) {
		return s.Annotation(context.Background(), name) != NoAnnotation
	}
	a, err := s.Stat(name, false)
	return err == nil && s.isMask(File{Path: name, Identity: a.Identity})
}

// isMask reports whether a sample that has the name of another one is its mask, and does not follow
// it: told so, of a mode that masks have, or with the look of one.
func (s *Server) isMask(f File) bool {
	switch s.o.Roles.Of(f.Path) {
	case transcode.Mask:
		return len(s.o.Roles.PicturesOf(f.Path)) == 0 // else it follows its picture
	case transcode.Image:
		return false
	}
	sample, err := s.stored(f)
	if err != nil {
		return false
	}
	info, err := s.header(&Handle{server: s, file: f, sample: sample})
	switch {
	case err != nil, info.Format == transcode.Unknown, info.Format == transcode.JPEG, info.Lossy:
		return false
	case info.MayBeLabels():
		_, look := s.lookOf(f.Path)
		return look == transcode.LookLabels
	}
	return true
}

// Annotation tells whether a file has boxes, and what these count. One that cannot be read
// has none.
func (s *Server) Annotation(ctx context.Context, name string) AnnotationCounts {
	return annotationOf(name, s.ends(ctx, name))
}

// ends is the beginning of a file that is no sample, and its end; nil if it cannot be read.
func (s *Server) ends(ctx context.Context, name string) []byte {
	a, err := s.Stat(name, false)
	if err != nil {
		return nil
	}
	// Not through the caches: nobody is going to ask for it.
	c, err := s.openOriginal(ctx, &Handle{server: s, file: File{Path: name, Identity: a.Identity}, size: a.Size})
	if err != nil {
		return nil
	}
	defer c.reader.Close()
	return annotationEnds(c, c.Size())
}

// dirOf is the directory of a path in the tree; "" is the top.
func dirOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

// AnnotationCounts is what the coordinates of an annotation file count. It has boxes, polygons or
// points, in the form of Pascal VOC, COCO, LabelMe or YOLO. It belongs to the picture of the same
// name in the same directory or in a directory beside it, or, as one JSON file for many pictures,
// to the pictures that it names.
type AnnotationCounts uint8

// What they count.
const (
	NoAnnotation       AnnotationCounts = iota // it is no annotation file
	AnnotationPixels                           // of the picture
	AnnotationRelative                         // to the sides of the picture, from 0 to 1
)

// AnnotationExtensions of annotation files.
var AnnotationExtensions = []string{".xml", ".txt", ".json"}

// annotationDirectories are names that are usual for directories of annotation files and masks, in
// lower case.
var annotationDirectories = []string{
	"labels", "annotations", "annotation", "ann", "masks", "mask", "segmentationclass", "segmentationobject", "segmentations",
}

// IsAnnotationDirectory reports whether a directory has a name that is usual for directories of
// annotation files and masks.
func IsAnnotationDirectory(name string) bool {
	return slices.Contains(annotationDirectories, strings.ToLower(name))
}

// Pascal VOC; COCO, LabelMe; YOLO: a class, and a box or a polygon of numbers up to 1.
var (
	vocBox      = []byte("<bndbox>")
	jsonBox     = regexp.MustCompile(`"(bbox|segmentation|keypoints|points)"\s*:\s*[\[{]`)
	yoloBox     = regexp.MustCompile(`^\s*\d+(\s+(0|1|[01]?\.\d+([eE]-\d+)?)){4,}\s*(\n|$)`)
	jsonPicture = regexp.MustCompile(`"file_name"\s*:\s*"([^"\\]+)"`)
)

// annotationOf tells what a file is by its name and its [annotationEnds].
func annotationOf(name string, ends []byte) AnnotationCounts {
	switch ext := strings.ToLower(path.Ext(name)); {
	case ext == ".xml" && bytes.Contains(ends, vocBox), ext == ".json" && jsonBox.Match(ends):
		return AnnotationPixels
	case ext == ".txt" && yoloBox.Match(ends):
		return AnnotationRelative
	}
	return NoAnnotation
}

// annotatedPictures are the names, without directories, of pictures that a JSON file names in its
// [annotationEnds], as COCO does.
func annotatedPictures(ends []byte) (names []string) {
	for _, m := range jsonPicture.FindAllSubmatch(ends, -1) {
		names = append(names, path.Base(string(m[1])))
	}
	return names
}

// endBytes is how much is looked at from the beginning of a file, and from its end.
const endBytes = 64 << 10

// annotationEnds reads the beginning of a file, and its end, as far as they can be read.
func annotationEnds(r io.ReaderAt, size int64) []byte {
	ends, _ := io.ReadAll(io.MultiReader(io.NewSectionReader(r, 0, endBytes), io.NewSectionReader(r, max(endBytes, size-endBytes), endBytes)))
	return ends
}
