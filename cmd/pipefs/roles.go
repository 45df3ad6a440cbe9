package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// checkRoles refuses patterns that are malformed, and those that match no sample: they
// are mistyped, and what they were meant for would be harmed without a word.
func (s *input) checkRoles(roles transcode.Roles) error {
	if err := roles.Check(); err != nil {
		return exit.With(exit.Usage, err)
	}
	left := roles.Unmatched(s.samples())
	if len(left) == 0 {
		return nil
	}
	flag := "images"
	if slices.Contains(roles.Masks, left[0]) {
		flag = "masks"
	}
	hint := "a pattern without a slash is compared with the names of samples in every directory, one with a slash with their paths in the dataset"
	if dir := path.Clean(left[0]); s.isDir(dir) {
		hint = fmt.Sprintf("it is a directory; for all that is in it write --%s '%s/**'", flag, dir)
	}
	return exit.Errorf(exit.Usage, "--%s '%s' matches no sample of %s; %s", flag, left[0], s.path, hint)
}

func (s *input) isDir(name string) bool {
	a, err := s.tree.Stat(name)
	return err == nil && a.Mode.IsDir()
}

// samples yields the paths of all samples. Directories that cannot be read are left out.
func (s *input) samples() iter.Seq[string] {
	return func(yield func(string) bool) {
		for e, err := range s.walk() {
			if err == nil && !e.Dir && s.registry.IsSample(e.Name) && !yield(e.Name) {
				return
			}
		}
	}
}

// refusals tells which directories of the samples views refuse, until somebody says what
// is in them. It looks at a few samples of each, if a view blends pixels or draws.
func refusals(ctx context.Context, p *serve.Server, samples []string, views []transcode.Pipeline) (refused []*serve.Refusal, err error) {
	if !slices.ContainsFunc(views, func(v transcode.Pipeline) bool { return v.Blends() || v.Random() }) {
		return nil, nil
	}
	dirs := map[string]bool{}
	for _, sample := range samples {
		dir := strings.TrimSuffix(sample[:strings.LastIndexByte(sample, '/')+1], "/")
		if dirs[dir] {
			continue
		}
		dirs[dir] = true
		for _, v := range views {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if e := (*serve.Refusal)(nil); errors.As(p.Refuses(dir, v), &e) {
				refused = append(refused, e)
			}
		}
	}
	return refused, nil
}

// noteSpared says which samples a view spares, if it does.
func noteSpared(w io.Writer, c serve.Spared) {
	if text := c.String(); text != "" {
		noter(w)("%s", text)
	}
}

// tellRefusals says each in a line.
func tellRefusals(refused []*serve.Refusal, tell func(line string)) {
	for i, e := range refused {
		if i == serve.MostTold {
			tell(fmt.Sprintf("%s refused for the same reason", plural(len(refused)-i, "more directory is", "more directories are")))
			return
		}
		tell(e.Error())
	}
}
