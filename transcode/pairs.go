package transcode

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Pair says which picture has which mask, by their paths in the dataset: images/**.jpg=masks/**.png.
// Both sides have the same wildcards in the same order. What a wildcard of one side stands for is put
// in the place of that of the other side. `*` stands for text without a slash, `**` for any text, and
// `**/` for directories, or none.
type Pair struct {
	text          string
	picture, mask paired
}

// paired is one side of a pair.
type paired struct {
	words []string // before, between and behind the wildcards
	match *regexp.Regexp
}

var (
	wildcards = regexp.MustCompile(`\*\*/|\*\*|\*`)
	stands    = map[string]string{"*": `([^/]*)`, "**": `(.*)`, "**/": `((?:.*/)?)`}
)

// ParsePair reads a pair.
func ParsePair(text string) (Pair, error) {
	picture, mask, ok := strings.Cut(text, "=")
	fail := func(format string, args ...any) (Pair, error) {
		return Pair{}, fmt.Errorf("%q: %s; want PICTURES=MASKS, such as 'images/**.jpg=masks/**.png'", text, fmt.Sprintf(format, args...))
	}
	picture, mask = strings.TrimPrefix(picture, "/"), strings.TrimPrefix(mask, "/")
	ours, theirs := wildcards.FindAllString(picture, -1), wildcards.FindAllString(mask, -1)
	switch {
	case !ok || picture == "" || mask == "" || strings.Contains(mask, "="):
		return fail("one = has to stand between two patterns")
	case strings.ContainsAny(text, `?[]{}\`):
		return fail("its only wildcards are * and **")
	case len(ours) == 0 || !slices.Equal(ours, theirs):
		return fail("both patterns need the same wildcards in the same order")
	case picture == mask:
		return fail("both patterns are the same")
	}
	return Pair{text, newPaired(picture, ours), newPaired(mask, theirs)}, nil
}

func newPaired(pattern string, stars []string) paired {
	p := paired{words: wildcards.Split(pattern, -1)}
	match := "(?s)^" + regexp.QuoteMeta(p.words[0])
	for i, star := range stars {
		match += stands[star] + regexp.QuoteMeta(p.words[i+1])
	}
	p.match = regexp.MustCompile(match + "$")
	return p
}

// of is the path of the other side that belongs to one of this side; empty where there is none.
func (p *paired) of(name string, other *paired) string {
	found := p.match.FindStringSubmatch(name)
	if found == nil {
		return ""
	}
	return other.fill(found[1:])
}

func (p *paired) fill(found []string) string {
	text := p.words[0]
	for i, word := range p.words[1:] {
		text += found[i] + word
	}
	return text
}

func (p Pair) String() string { return p.text }

// MarshalText writes the pair as [ParsePair] reads it.
func (p Pair) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// UnmarshalText is the reverse.
func (p *Pair) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePair(string(text))
	return err
}

// MaskOf is the path of the mask of the picture at path, of the first pair that has one; empty
// where there is none. What is the mask of a pair is no picture.
func (r Roles) MaskOf(path string) string {
	mask := ""
	for i := range r.Pairs {
		p := &r.Pairs[i]
		if p.mask.match.MatchString(path) {
			return ""
		}
		if mask == "" {
			mask = p.picture.of(path, &p.mask)
		}
	}
	return mask
}

// PicturesOf are the paths of the pictures of which the file at path may be the mask.
func (r Roles) PicturesOf(path string) (pictures []string) {
	for i := range r.Pairs {
		p := &r.Pairs[i]
		if picture := p.mask.of(path, &p.picture); picture != "" && p.picture.of(picture, &p.mask) == path {
			pictures = append(pictures, picture)
		}
	}
	return pictures
}

// sizeBefore is the size of what a step of the pipeline gets.
func (p Plan) sizeBefore(at int) (width, height int) {
	width, height = p.source.Width, p.source.Height
	for _, s := range p.steps {
		if s.At >= at {
			break
		}
		width, height = s.Out.Width, s.Out.Height
	}
	return width, height
}

// Follow returns an error if the plan of a mask does not do to its pixels what that of its picture
// does: a step that moves them gets another size.
func (p Plan) Follow(picture Plan) error {
	turned := p.source.Orientation
	for _, s := range p.steps {
		turns := s.Out.Orientation != turned
		turned = s.Out.Orientation
		if s.Kind.Effect == Exact || turns {
			continue
		}
		width, height := p.sizeBefore(s.At)
		if w, h := picture.sizeBefore(s.At); w != width || h != height {
			return Errorf(ErrBad, "the mask has %d×%d pixels before %v, and its picture %d×%d", width, height, s.Step, w, h)
		}
	}
	return nil
}
