package main

import (
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/transcode"
)

// readerOption is --for: the loader of the training.
func readerOption(p *string) *option {
	names := loader.ReaderNames()
	return &option{name: "for", arg: strings.Join(names, "|"), def: "what most of them read", set: intoChoice(p, names...),
		help: "the loader of the training: torchvision's ImageFolder (torch), timm, Keras' image_dataset_from_directory, Ultralytics (yolo), DALI, Hugging Face's imagefolder (hf), OpenCV's imread (opencv), torchvision.io or TorchCodec. What it cannot read is neither measured nor recommended"}
}

// reading says which views a loader can read.
type reading struct {
	*loader.Reader          // of --for; nil without
	extensions     []string // of the dataset's samples, as far as they are known
	turned         int      // samples that the loader turns by their EXIF orientation, or may turn
}

// newReading is of a loader that may be unknown, and of samples of which so many have an EXIF
// orientation. Without --for nothing is turned: the loaders of bench turn nothing.
func newReading(name string, extensions []string, turned int) reading {
	r, ok := loader.FindReader(name)
	switch {
	case !ok:
		return reading{extensions: extensions}
	case !r.Turns:
		turned = 0
	}
	return reading{&r, extensions, turned}
}

// reads says why the loader cannot read a view, or reads it otherwise than the dataset, or is empty.
func (r reading) reads(p transcode.Pipeline) (why string) {
	if r.Reader != nil {
		why = r.Reads(p, r.extensions)
	}
	if why == "" && r.turned > 0 && p.DropsOrientation() {
		why = fmt.Sprintf("%s drops the EXIF orientation of %s, by which the loader turns pictures; write upright-%s",
			p, plural(r.turned, "sample", "samples"), strings.TrimPrefix(p.String(), transcode.Stored+"-"))
	}
	return why
}

// cannot says why a view cannot be read, and what to write instead, or is empty.
func (r reading) cannot(p transcode.Pipeline) string {
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

// uncommon says why a view that is materialized is not compared unless the loader
// is known or the view is named, or is empty.
func (r reading) uncommon(registry *transcode.Registry, view string) string {
	p, err := registry.Parse(view)
	if err != nil || r.Reader != nil {
		return ""
	}
	for _, one := range loader.Readers {
		if why := one.Reads(p, nil); why != "" && one.Name != "torchvision-io" {
			return why + "; name the loader with --for, or the view with --views"
		}
	}
	return ""
}

// assumed says for which loaders views were chosen.
func (r reading) assumed(registry *transcode.Registry, views []string) string {
	if r.Reader != nil {
		return fmt.Sprintf("the views are some that %s reads (--for %s)", r.What, r.Name)
	}
	var can, not []string
	for _, one := range loader.Readers {
		reads := true
		for _, v := range views {
			if p, err := registry.Parse(v); err == nil && one.Reads(p, r.extensions) != "" {
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

// check refuses a view that was named and cannot be read.
func (r reading) check(option string, p transcode.Pipeline) error {
	if why := r.cannot(p); why != "" {
		return exit.Errorf(exit.Usage, "%s %s: %s", option, p, why)
	}
	return nil
}
