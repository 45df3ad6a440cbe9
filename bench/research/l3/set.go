package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
	"github.com/pipefs/pipefs/transcode/png"
)

// set is pictures that were loaded, and the ways they are measured in.
type set struct {
	pictures []*transcode.Pixels
	largest  int // bytes of pixels
	ways     []*way
}

// way is a codec with its settings.
type way struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"` // of all files
	// Encodes says whether encoding can be measured.
	Encodes bool `json:"encodes"`

	encode, decode func(s *set) error
}

// load reads pictures, and the PNG files of the same pictures.
func load(ppms, pngs []string) (set, error) {
	var s set
	for _, path := range ppms {
		px, err := readPPM(path)
		if err != nil {
			return s, err
		}
		s.pictures, s.largest = append(s.pictures, px), max(s.largest, len(px.Pix))
	}
	for _, v := range []struct {
		name    string
		options l3.Options
	}{
		{"L3 v1, N = 64", l3.Options{Mode: l3.V1}},
		{"L3 v2 fast", l3.Options{Mode: l3.Fast}},
		{"L3 v2 dense", l3.Options{Mode: l3.Dense}},
	} {
		if err := s.addL3(v.name, v.options); err != nil {
			return s, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return s, s.addPNG("PNG, pipefs' decoder", pngs)
}

// readPPM reads a PPM file as compare.py writes it.
func readPPM(path string) (*transcode.Pixels, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	px := &transcode.Pixels{Mode: transcode.ModeRGB}
	head := bytes.NewReader(file)
	if _, err := fmt.Fscanf(head, "P6\n%d %d\n255\n", &px.Width, &px.Height); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if px.Pix = file[len(file)-head.Len():]; px.Width < 1 || px.Height < 1 || len(px.Pix) != px.Len() {
		return nil, fmt.Errorf("%s: %d×%d pixels in %d bytes", path, px.Width, px.Height, len(px.Pix))
	}
	return px, nil
}

// addL3 adds a way of L3, after checking that it gives every picture back.
func (s *set) addL3(name string, o l3.Options) error {
	files := make([][]byte, len(s.pictures))
	dst := make([]byte, s.largest)
	w := &way{Name: name, Encodes: true}
	w.encode = func(s *set) (err error) {
		for i, px := range s.pictures {
			if files[i], err = l3.Encode(px, o); err != nil {
				return err
			}
		}
		return nil
	}
	decode := func(i int) error {
		px := s.pictures[i]
		samples, err := l3.Open(files[i], transcode.Limits{})
		if err != nil {
			return err
		}
		return samples.Decode(transcode.Interleaved(dst[:len(px.Pix)], px.Width, 3, 1))
	}
	w.decode = func(s *set) error {
		for i := range files {
			if err := decode(i); err != nil {
				return err
			}
		}
		return nil
	}
	if err := w.encode(s); err != nil {
		return err
	}
	for i, px := range s.pictures {
		w.Bytes += len(files[i])
		if err := decode(i); err != nil {
			return err
		}
		if !bytes.Equal(dst[:len(px.Pix)], px.Pix) {
			return fmt.Errorf("other pixels came back of picture %d", i)
		}
	}
	s.ways = append(s.ways, w)
	return nil
}

// addPNG adds this repository's own PNG decoder, with which a store that holds PNG
// files pays for a first read.
func (s *set) addPNG(name string, paths []string) error {
	files := make([][]byte, len(paths))
	w := &way{Name: name}
	for i, path := range paths {
		var err error
		if files[i], err = os.ReadFile(path); err != nil {
			return err
		}
		w.Bytes += len(files[i])
		px, err := png.Decoder{}.Decode(context.Background(), files[i], transcode.Limits{})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if px.Mode != transcode.ModeRGB || !bytes.Equal(px.Pix, s.pictures[i].Pix) {
			return fmt.Errorf("%s: other pixels than Pillow's", path)
		}
	}
	w.decode = func(*set) error {
		for _, file := range files {
			if _, err := (png.Decoder{}).Decode(context.Background(), file, transcode.Limits{}); err != nil {
				return err
			}
		}
		return nil
	}
	s.ways = append(s.ways, w)
	return nil
}
