package main

import (
	"bytes"
	"context"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// Annotation files say where things are in pictures. They are shown as they are in
// every view, so that what they say is not true of pictures that were scaled or cut.
const (
	boxFiles = 8        // of each extension that are looked at
	boxBytes = 64 << 10 // from the beginning of each, and from its end
)

// boxes are annotation files, by what their coordinates count.
type boxes struct {
	Pixels   []string `json:"pixels,omitempty"`   // of the source
	Relative []string `json:"relative,omitempty"` // to its sides, from 0 to 1
}

// annotations are files that may have boxes: the first few of each extension.
type annotations map[string][]string

func (a annotations) add(name string) {
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".xml", ".json", ".txt":
		if len(a[ext]) < boxFiles {
			a[ext] = append(a[ext], name)
		}
	}
}

// Pascal VOC; COCO, LabelMe; YOLO: a class, and a box or a polygon of numbers up to 1.
var (
	vocBox  = []byte("<bndbox>")
	jsonBox = regexp.MustCompile(`"(bbox|segmentation|keypoints|points)"\s*:\s*[\[{]`)
	yoloBox = regexp.MustCompile(`^\s*\d+(\s+(0|1|[01]?\.\d+([eE]-\d+)?)){4,}\s*(\n|$)`)
)

// boxes finds out which of the files have boxes. One that cannot be read has none.
func (s *input) boxes(ctx context.Context, files annotations) (b boxes) {
	for _, name := range slices.Sorted(slices.Values(slices.Concat(files[".xml"], files[".json"], files[".txt"]))) {
		text, err := s.ends(ctx, name)
		if err != nil {
			continue
		}
		switch ext := strings.ToLower(path.Ext(name)); {
		case ext == ".xml" && bytes.Contains(text, vocBox), ext == ".json" && jsonBox.Match(text):
			b.Pixels = append(b.Pixels, name)
		case ext == ".txt" && yoloBox.Match(text):
			b.Relative = append(b.Relative, name)
		}
	}
	return b
}

// ends is the beginning of a file, and its end.
func (s *input) ends(ctx context.Context, name string) ([]byte, error) {
	a, err := s.server.Stat(name, false)
	if err != nil {
		return nil, err
	}
	h, err := s.resolve(ctx, serve.File{Path: name, Identity: a.Identity}, transcode.Pipeline{})
	if err != nil {
		return nil, err
	}
	c, done, err := openOnce(ctx, h)
	if err != nil {
		return nil, err
	}
	defer done()
	return io.ReadAll(io.MultiReader(io.NewSectionReader(c, 0, boxBytes), io.NewSectionReader(c, max(boxBytes, c.Size()-boxBytes), boxBytes)))
}

// noteBoxes tells in which views boxes are not where their files say.
func (t *tally) noteBoxes(note func(format string, args ...any)) {
	tell := func(files []string, what string, wrong ...transcode.Effect) {
		var views []string
		for _, v := range t.views {
			if slices.ContainsFunc(v.Pipeline.Steps(), func(s transcode.Step) bool { return slices.Contains(wrong, s.Kind.Effect) }) {
				views = append(views, v.View)
			}
		}
		if len(files) > 0 && len(views) > 0 {
			note("boxes in %s %s: they are wrong in %s, unless the loader adapts them", files[0], what, strings.Join(views, ", "))
		}
	}
	tell(t.Boxes.Pixels, "count pixels of the source", transcode.Resampling, transcode.Geometric)
	tell(t.Boxes.Relative, "are relative to the whole picture", transcode.Geometric) // cut or turned
}
