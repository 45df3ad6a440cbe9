package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pipefs/pipefs/bench/views"
)

// first measures how long the first batch of an epoch takes to who reads one after the other, as one of
// many ranks: so that the epochs are short.
func (s *settings) first(ctx context.Context) error {
	const classes, world = 100, 100
	dataset, err := s.dataset("links", s.files, classes, s.link)
	if err != nil {
		return err
	}
	return s.mount(ctx, dataset, func(m *views.Mount) error {
		var firsts, gaps []float64
		for epoch := range 1 + s.rounds {
			r, err := s.read(m.Dir, place{7, epoch, world, 0})
			if err != nil {
				return err
			}
			// The first of them were made while the reader waited for the very first.
			gap := views.Median(r.gaps[len(r.gaps)/2:])
			fmt.Printf("epoch %d: the first batch after %.3f s, then %.3f s each\n", epoch, r.first, gap)
			if epoch > 0 { // that one lists all files
				firsts, gaps = append(firsts, r.first), append(gaps, gap)
			}
		}
		i := views.Paired(firsts, gaps)
		fmt.Printf("medians of the epochs after the first one, %d files: the first batch %.3f s, others %.3f s; %.2f (%.2f – %.2f) batches' time\n",
			s.files, views.Median(firsts), views.Median(gaps), i.Median, i.Low, i.High)
		return nil
	})
}

// link links to a copy of a photograph, so that the photograph itself stays as it is.
func (s *settings) link(from, to string) error {
	copied := filepath.Join(s.Out, "photographs", filepath.Base(from))
	if _, err := os.Stat(copied); err != nil {
		b, err := os.ReadFile(from)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(copied), 0o755), os.WriteFile(copied, b, 0o644)); err != nil {
			return err
		}
	}
	return os.Link(copied, to)
}
