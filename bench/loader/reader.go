package loader

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/transcode"
)

// Reader is a loader that trainings use, by what it can read: a view that it cannot
// read is not worth measuring.
type Reader struct {
	Name string // of an option
	What string // in words
	// Lists are the extensions of files that it finds in a directory, whatever their
	// case; nil where it is given the names of files.
	Lists []string
	// Decodes are the formats that it decodes, going by a file's content.
	Decodes []transcode.Format
	// Turns: it turns pictures by their EXIF orientation.
	Turns bool
}

// Readers are those that are known. Extensions and formats are those of torchvision
// 0.14 to 0.26 (datasets.folder.IMG_EXTENSIONS; torchvision.io decodes GIF and WebP
// from 0.20 on, TorchCodec from 0.16 on), timm 1.0 (IMG_EXTENSIONS), Keras 3.15
// (ALLOWLIST_FORMATS; tf.image.decode_image), Ultralytics 8.4 (IMG_FORMATS, of names and
// of what Pillow calls the content), DALI 1.42 (file_filters; decoders.image) and
// Hugging Face datasets 5.2 (IMAGE_EXTENSIONS; Pillow).
var Readers = []Reader{
	{"torch", "torchvision's ImageFolder", []string{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}, byPillow, false},
	{"timm", "timm", []string{".png", ".jpg", ".jpeg"}, byPillow, false},
	{"keras", "Keras' image_dataset_from_directory", []string{".bmp", ".gif", ".jpeg", ".jpg", ".png"}, []transcode.Format{transcode.JPEG, transcode.PNG, transcode.BMP, transcode.GIF}, false},
	{"yolo", "Ultralytics", []string{".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}, []transcode.Format{transcode.JPEG, transcode.PNG, transcode.BMP, transcode.TIFF, transcode.WebP}, true},
	{"dali", "DALI's file reader", []string{".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".pnm", ".ppm", ".pgm", ".pbm", ".webp"}, []transcode.Format{transcode.JPEG, transcode.PNG, transcode.BMP, transcode.PNM, transcode.TIFF, transcode.WebP}, true},
	{"hf", "Hugging Face's imagefolder", []string{".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm", ".gif", ".tif", ".tiff", ".webp"}, byPillow, true},
	{"opencv", "OpenCV's imread", nil, []transcode.Format{transcode.JPEG, transcode.PNG, transcode.BMP, transcode.PNM, transcode.TIFF, transcode.WebP}, true},
	{"torchvision-io", "torchvision.io or TorchCodec", nil, []transcode.Format{transcode.JPEG, transcode.PNG}, false},
}

// byPillow are the formats of views that Pillow decodes, and of samples.
var byPillow = []transcode.Format{transcode.JPEG, transcode.PNG, transcode.BMP, transcode.PNM, transcode.TIFF, transcode.WebP, transcode.GIF}

// ReaderNames are the names of Readers.
func ReaderNames() []string {
	names := make([]string, len(Readers))
	for i, r := range Readers {
		names[i] = r.Name
	}
	return names
}

// Reads says why the reader cannot read what a view makes of samples, or is empty.
// Extensions are those that samples have in the dataset. What a view leaves unchanged
// counts as readable: it is no worse than without the view.
func (r Reader) Reads(p transcode.Pipeline, extensions []string) (why string) {
	steps := p.Steps()
	if len(steps) == 0 {
		return ""
	}
	last := steps[len(steps)-1].Kind
	if last.Ext == "" { // a JPEG stays one, under its own name
		return ""
	}
	if !slices.Contains(r.Decodes, last.Format) {
		return fmt.Sprintf("%s cannot read the %s files of %s: it decodes %s", r.What, last.Format, p, join(r.Decodes))
	}
	listed := []string{"." + last.Ext}
	if p.OwnNames() {
		listed = extensions
	}
	for _, ext := range listed {
		if r.Lists != nil && !slices.Contains(r.Lists, strings.ToLower(ext)) {
			return fmt.Sprintf("%s does not find the %s files of %s: it goes by the extensions %s", r.What, ext, p, strings.Join(r.Lists, ", "))
		}
	}
	return ""
}

func join(formats []transcode.Format) string {
	words := make([]string, len(formats))
	for i, f := range formats {
		words[i] = f.String()
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// Extensions are those of files, each once, with their dot and in the files' order.
func Extensions(files []string) (all []string) {
	for _, name := range files {
		if ext := strings.ToLower(path.Ext(name)); !slices.Contains(all, ext) {
			all = append(all, ext)
		}
	}
	return all
}

// Reading says which views a loader can read.
type Reading struct {
	*Reader             // of --for; nil without
	Extensions []string // of the dataset's samples, as far as they are known
	Turned     int      // samples that the loader turns by their EXIF orientation, or may turn
}

// NewReading is of a loader that may be unknown, and of samples of which so many have an EXIF
// orientation. Without --for nothing is turned: the loaders of bench turn nothing.
func NewReading(name string, extensions []string, turned int) Reading {
	i := slices.IndexFunc(Readers, func(r Reader) bool { return r.Name == name })
	switch {
	case i < 0:
		return Reading{Extensions: extensions}
	case !Readers[i].Turns:
		turned = 0
	}
	return Reading{&Readers[i], extensions, turned}
}

// reads says why the loader cannot read a view, or reads it otherwise than the dataset, or is empty.
func (r Reading) reads(p transcode.Pipeline) (why string) {
	if r.Reader != nil {
		why = r.Reads(p, r.Extensions)
	}
	if why == "" && r.Turned > 0 && p.DropsOrientation() {
		why = fmt.Sprintf("%s drops the EXIF orientation of %s, by which the loader turns pictures; write upright-%s",
			p, human.Plural(r.Turned, "sample", "samples"), strings.TrimPrefix(p.String(), transcode.Stored+"-"))
	}
	return why
}

// Cannot says why a view cannot be read, and what to write instead, or is empty.
func (r Reading) Cannot(p transcode.Pipeline) string {
	why := r.reads(p)
	if why == "" || p.Random() && r.Reader != nil && r.Name == "torch" { // pipefs.RandomView takes an ImageFolder
		return ""
	}
	for _, other := range []transcode.Pipeline{p.WithOwnNames(), p.Whole()} {
		if r.reads(other) == "" {
			return why + "; write " + other.String()
		}
	}
	return why
}

// Uncommon says why a view that is materialized is not compared unless the loader
// is known or the view is named, or is empty.
func (r Reading) Uncommon(registry *transcode.Registry, view string) string {
	p, err := registry.Parse(view)
	if err != nil || r.Reader != nil {
		return ""
	}
	for _, one := range Readers {
		if why := one.Reads(p, nil); why != "" && one.Name != "torchvision-io" {
			return why + "; name the loader with --for, or the view with --views"
		}
	}
	return ""
}

// Assumed says for which loaders views were chosen.
func (r Reading) Assumed(registry *transcode.Registry, views []string) string {
	if r.Reader != nil {
		return fmt.Sprintf("the views are some that %s reads (--for %s)", r.What, r.Name)
	}
	var can, not []string
	for _, one := range Readers {
		reads := true
		for _, v := range views {
			if p, err := registry.Parse(v); err == nil && one.Reads(p, r.Extensions) != "" {
				reads = false
			}
		}
		if reads {
			can = append(can, one.Name)
		} else {
			not = append(not, one.Name)
		}
	}
	switch {
	case len(not) == 0:
		return ""
	case len(can) == 0:
		return "no loader that --for knows reads all of these views"
	}
	return fmt.Sprintf("the views are for loaders that read all of them: %s; not for %s (--for changes that)", strings.Join(can, ", "), strings.Join(not, ", "))
}
