package mountd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/archive"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// convertedBranch is where the Hub keeps what it made of a dataset: CONFIG/SPLIT/0000.parquet.
const convertedBranch = "refs/convert/parquet"

// pinHub names the commit in a URL of the Hub. Where the user names no revision, and the dataset has neither a card with
// configurations nor any file that can be shown, it is one of the branch that the Hub converts datasets into.
func pinHub(ctx context.Context, a remote.Access, at string) (string, error) {
	p, err := blob.ParseHub(at)
	if err != nil || p.Pinned() {
		return at, usage.With(err)
	}
	named := p.Revision != ""
	whole := p
	whole.Path = ""
	h, err := blob.OpenHub(ctx, whole.String(), a.Blob)
	if err != nil {
		return "", err
	}
	defer func() { h.Close() }()
	if !named {
		shown, err := showsHub(ctx, h)
		if err != nil {
			return "", err
		}
		if !shown {
			whole.Revision = convertedBranch
			switch other, err := blob.OpenHub(ctx, whole.String(), a.Blob); {
			case err == nil:
				h.Close()
				h = other
			case !errors.Is(err, fs.ErrNotExist):
				return "", err
			}
		}
	}
	p.Revision = h.Revision
	return p.String(), nil
}

// showsHub reports whether there is something to show in a repository.
func showsHub(ctx context.Context, h *blob.Hub) (bool, error) {
	i, err := h.Stat(ctx, cardName)
	if err == nil && i.Size <= maxCard {
		text := make([]byte, i.Size)
		if err := h.ReadAt(ctx, cardName, i.Version, text, 0); err != nil {
			return false, err
		}
		configs, err := parseCard(text)
		if err != nil || len(configs) > 0 {
			return true, nil // what is wrong with it is told when it is opened
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	is := codecs.Default(transcode.Limits{}).IsSample
	return h.Has(ctx, func(name string) bool { return is(name) || archive.Is(name) })
}

// openHub opens a dataset of the Hub, or a directory in it: the members of the archives that the configuration names or
// that it is made of, else the files. A path that is not in the repository is that of a configuration or a split.
func openHub(ctx context.Context, at string, under func(dir string) (source.Dataset, error), o archive.Options) (source.Dataset, error) {
	p, err := blob.ParseHub(at)
	if err != nil {
		return nil, usage.With(err)
	}
	in, err := under(at)
	want := ""
	if p.Path != "" && errors.Is(err, fs.ErrNotExist) {
		want, p.Path = p.Path, ""
		whole, errWhole := under(p.String())
		if errWhole != nil {
			return nil, errWhole
		}
		in = whole
	} else if err != nil {
		return nil, err
	}
	shards, dirs, err := hubShards(in, want)
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("%s: %w", at, err), in.Close())
	case len(shards) == 0:
		return in, nil
	}
	o.Dirs = dirs
	return openMembers(ctx, in, at, shards, o)
}

// hubShards are the archives to show, and the directories for their members. want is a configuration, a split of the
// usual one, or CONFIG/SPLIT; empty is the usual one. There are none where the files are to be shown themselves.
func hubShards(in source.Dataset, want string) (shards []string, dirs map[string]string, err error) {
	configs, err := readCard(in)
	if err != nil {
		return nil, nil, err
	}
	is := codecs.Default(transcode.Limits{}).IsSample
	var loose bool
	for name, err := range source.Files(in.List) {
		if err != nil {
			return nil, nil, err
		}
		if archive.Is(name) {
			shards = append(shards, name)
		}
		if loose = loose || is(name); loose && len(configs) == 0 {
			break
		}
	}
	switch {
	case len(configs) > 0:
		dirs, err = configs.shards(want, shards)
		if err == nil && want != "" && len(dirs) == 0 {
			err = fmt.Errorf("the files of %s in the card are no archives that can be mounted", want)
		}
		return slices.Sorted(maps.Keys(dirs)), dirs, err
	case want != "":
		return nil, nil, usage.Errorf("it has no directory %s, and its card has no configuration of this name", want)
	case loose:
		return nil, nil, nil
	}
	slices.Sort(shards)
	others := slices.DeleteFunc(slices.Clone(shards), func(name string) bool { return strings.EqualFold(path.Ext(name), ".parquet") })
	return shards, dirsOf(others), nil // the scan tells Parquet files apart, by their names
}

var splitName = regexp.MustCompile(`(?i)(?:^|[^a-z])(train(?:ing)?|valid(?:ation)?|val|dev|test(?:ing)?|eval(?:uation)?)(?:[^a-z]|$)`)

// dirsOf tells archives that no card describes apart: by the directories that they are in, without those that all have,
// and by the splits that stand in their names, if these are several.
func dirsOf(shards []string) map[string]string {
	splits, dirs := map[string]bool{}, map[string]string{}
	splitOf := func(name string) (split string) {
		if m := splitName.FindStringSubmatch(path.Base(name)); m != nil {
			split = strings.ToLower(m[1])
		}
		return split
	}
	for _, name := range shards {
		splits[splitOf(name)] = true
	}
	common := ""
	for i, name := range shards {
		dir := path.Dir("/" + name)
		if s := splitOf(name); len(splits) > 1 && path.Base(dir) != s {
			dir = path.Join(dir, s)
		}
		if dirs[name] = dir; i == 0 {
			common = dir
		}
		for common != "/" && dir != common && !strings.HasPrefix(dir, common+"/") {
			common = path.Dir(common)
		}
	}
	for name, dir := range dirs {
		dirs[name] = strings.Trim(strings.TrimPrefix(dir, common), "/")
	}
	return dirs
}

// shards are the archives that a configuration names, and the directory of the split of each.
func (all configurations) shards(want string, archives []string) (map[string]string, error) {
	c, split, err := all.choose(want)
	if err != nil {
		return nil, err
	}
	if c == nil { // several: this is only wrong if there is something to choose
		for i := range all {
			if dirs, err := all[i].shards("", archives); err != nil || len(dirs) > 0 {
				return nil, usage.Errorf("it has the configurations %s: write one behind the URL, such as …/%s", strings.Join(all.names(), ", "), all[i].Name)
			}
		}
		return nil, nil
	}
	return c.shards(split, archives)
}

func (c *configuration) shards(only string, archives []string) (map[string]string, error) {
	dirs := map[string]string{}
	for _, s := range c.Splits {
		if only != "" && s.Name != only {
			continue
		}
		for _, pattern := range s.Patterns {
			if !doublestar.ValidatePattern(pattern) {
				return nil, fmt.Errorf("its card has %q, which is no pattern of names", pattern)
			}
			for _, name := range archives {
				if ok, _ := doublestar.Match(pattern, name); !ok {
					continue
				}
				in := s.Name
				if only != "" {
					in = ""
				}
				if other, twice := dirs[name]; twice && other != in {
					return nil, fmt.Errorf("its card has %s in two splits, %s and %s: mount one of them, such as …/%s/%s", name, other, in, c.Name, in)
				}
				dirs[name] = in
			}
		}
	}
	return dirs, nil
}
