package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pipefs/pipefs/transcode"
)

// A mask that [transcode.Roles.Pairs] give to a picture follows it: a view does to the pixels of
// both what it draws for the picture.

// pictureOf is the picture that a mask follows; ok is false of what is the mask of no pair.
func (s *Server) pictureOf(mask string) (picture File, ok bool, err error) {
	names := s.o.Roles.PicturesOf(mask)
	for _, name := range names {
		a, err := s.Stat(name, false)
		if err == nil {
			return File{Path: name, Identity: a.Identity}, true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return File{}, true, err
		}
	}
	if len(names) > 0 {
		err = fmt.Errorf("it is a mask by --pair, and there is no picture %s", names[0])
	}
	return File{}, len(names) > 0, err
}

// PairedWith returns an error if the mask of a picture follows another one.
func (s *Server) PairedWith(mask, picture string) error {
	if len(s.o.Roles.PicturesOf(mask)) < 2 {
		return nil
	}
	found, _, err := s.pictureOf(mask)
	if err == nil && found.Path != picture {
		err = fmt.Errorf("%s is the mask of %s and of %s: rename one of them", mask, picture, found.Path)
	}
	return err
}

// follows returns the sample for which the view of a handle draws: its own, or the picture of a
// mask. The error says why a mask cannot follow it.
func (s *Server) follows(ctx context.Context, h *Handle, most Effort) (sample string, err error) {
	if !slices.ContainsFunc(h.plan.Steps(), func(a transcode.Applied) bool { return a.Kind.Effect != transcode.Exact }) {
		return h.file.Path, nil
	}
	picture, ok, err := s.pictureOf(h.file.Path)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return h.file.Path, nil
	}
	of := &Handle{server: s, file: picture}
	if of.sample, err = s.stored(picture); err != nil {
		return "", err
	}
	info, err := s.header(of)
	if err == nil {
		of.plan, err = s.Fit(ctx, picture, h.view, info, of.sample, most)
	}
	if err == nil {
		err = h.plan.Follow(of.plan)
	}
	if err != nil {
		err = fmt.Errorf("it is the mask of %s, and cannot follow it: %w", picture.Path, err)
	}
	return picture.Path, err
}
