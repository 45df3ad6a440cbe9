package main

import (
	"fmt"
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
