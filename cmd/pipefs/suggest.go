package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/typo"
)

// What is said of a mistyped word. Steps of views are in transcode.

func unknownCommand(commands []*command, word string) error {
	if asked := typo.Ask(word, names(commands)...); asked != "" {
		return exit.Errorf(exit.Usage, "unknown command %q; %s (pipefs --help lists all; to mount a dataset: pipefs mount DATASET MNT)", word, asked)
	}
	return exit.Errorf(exit.Usage, "unknown command %q; the commands are %s (to mount a dataset: pipefs mount DATASET MNT)", word, strings.Join(names(commands), ", "))
}

// unknownFlag tells what a flag was probably meant to be.
func (c *command) unknownFlag(err *pflag.NotExistError) error {
	meant := ""
	if err.GetSpecifiedShortnames() == "" {
		meant = meantOption(c.options, err.GetSpecifiedName(), "--")
	}
	return exit.Errorf(exit.Usage, "%w%s (pipefs %s --%s lists the options)", err, meant, c.name, helpAll)
}

// meantOption asks whether a word was meant to be one of some options: "; did you mean
// --cache?". It is empty where none comes near.
func meantOption(options []*option, word, prefix string) string {
	known := make([]string, len(options))
	for i, o := range options {
		known[i] = o.name
	}
	meant := typo.Meant(word, known...)
	for i := range meant {
		meant[i] = prefix + meant[i]
	}
	return semicolon(typo.Question(meant))
}

// semicolon goes on with what is said, if there is more.
func semicolon(more string) string {
	if more == "" {
		return ""
	}
	return "; " + more
}

// notOneOf refuses a word that is none of some choices.
func notOneOf(word string, choices []string) error {
	return fmt.Errorf("%q is none of %s%s", word, strings.Join(choices, ", "), semicolon(typo.Ask(word, choices...)))
}

// neighbours are the directories beside a path that is not there, which it was perhaps meant
// to be.
func neighbours(path string) []string {
	const looked = 10_000
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(looked) // what there is of it
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	meant := typo.Meant(filepath.Base(path), names...)
	for i, name := range meant {
		meant[i] = filepath.Join(filepath.Dir(path), name)
	}
	return meant[:min(len(meant), 3)]
}
