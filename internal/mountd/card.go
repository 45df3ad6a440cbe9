package mountd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/usage"
)

// The card of a dataset of the Hub is a file in Markdown. Lines of YAML at its beginning, between two of ---, say which
// files are what.
const (
	cardName = "README.md"
	maxCard  = 8 << 20 // bytes
)

// configurations are those that a card has.
type configurations []configuration

type configuration struct {
	Name    string
	Default bool
	Splits  []split
}

// split is a part of a configuration.
type split struct {
	Name     string
	Patterns []string // of names of files
}

// readCard reads the card of a dataset; one without has no configurations.
func readCard(in source.Dataset) (configurations, error) {
	f, err := in.Open(cardName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, min(f.Identity.Size, maxCard)))
	if err != nil {
		return nil, err
	}
	return parseCard(text)
}

// parseCard reads the configurations of a card.
func parseCard(text []byte) (configurations, error) {
	head, found := strings.CutPrefix(strings.ReplaceAll(string(text), "\r\n", "\n"), "---\n")
	head, _, ends := strings.Cut(head, "\n---")
	if !found || !ends {
		return nil, nil
	}
	var card struct {
		Configs []struct {
			Name    string    `yaml:"config_name"`
			Default bool      `yaml:"default"`
			Dir     string    `yaml:"data_dir"`
			Files   yaml.Node `yaml:"data_files"`
		} `yaml:"configs"`
	}
	if err := yaml.Unmarshal([]byte(head), &card); err != nil {
		return nil, fmt.Errorf("%s: its YAML cannot be read: %w", cardName, err)
	}
	var all configurations
	for _, c := range card.Configs {
		splits, err := readSplits(&c.Files, c.Dir)
		if err != nil {
			return nil, fmt.Errorf("%s: data_files of the configuration %s: %w", cardName, c.Name, err)
		}
		if len(splits) > 0 {
			all = append(all, configuration{c.Name, c.Default, splits})
		}
	}
	return all, nil
}

// readSplits reads data_files: a pattern or several, which are the split train; a list of splits, each with a path; or a
// map from splits to patterns.
func readSplits(n *yaml.Node, dir string) (splits []split, err error) {
	add := func(name string, n *yaml.Node) error {
		var patterns []string
		if n.Kind == yaml.ScalarNode {
			patterns = []string{n.Value}
		} else if err := n.Decode(&patterns); err != nil {
			return err
		}
		for i, p := range patterns {
			patterns[i] = path.Join(dir, p)
		}
		splits = append(splits, split{name, patterns})
		return nil
	}
	switch {
	case n.Kind == 0 && dir == "":
		return nil, nil
	case n.Kind == 0:
		return []split{{"train", []string{path.Join(dir, "**")}}}, nil
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content) && err == nil; i += 2 {
			err = add(n.Content[i].Value, n.Content[i+1])
		}
		return splits, err
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode:
		for _, e := range n.Content {
			var of struct {
				Split string    `yaml:"split"`
				Path  yaml.Node `yaml:"path"`
			}
			if err := e.Decode(&of); err != nil {
				return nil, err
			}
			if err := add(cmp.Or(of.Split, "train"), &of.Path); err != nil {
				return nil, err
			}
		}
		return splits, nil
	}
	return splits, add("train", n)
}

func (all configurations) names() (names []string) {
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// choose finds CONFIG, CONFIG/SPLIT or a SPLIT of the usual configuration: the only one, the one that says so, or default.
// It is nil where nothing is wanted and no configuration is the usual one.
func (all configurations) choose(want string) (c *configuration, split string, err error) {
	for i := range all {
		if len(all) == 1 || all[i].Default || c == nil && all[i].Name == "default" {
			c = &all[i]
		}
	}
	if want == "" {
		return c, "", nil
	}
	name, rest, _ := strings.Cut(want, "/")
	for i := range all {
		if all[i].Name == name {
			c, want = &all[i], rest
			break
		}
	}
	if c != nil && want == "" {
		return c, "", nil
	}
	if c != nil {
		for _, s := range c.Splits {
			if s.Name == want {
				return c, want, nil
			}
		}
	}
	return nil, "", usage.Errorf("it has no directory %s, and no configuration or split of this name; its configurations are %s", want, strings.Join(all.names(), ", "))
}
