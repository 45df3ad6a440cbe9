package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/bench/loader"
)

// readerOption is --for: the loader of the training.
func readerOption(p *string) cli.Flag {
	names := loader.ReaderNames()
	return opt("for", strings.Join(names, "|"), "any of them", intoChoice(p, names...),
		"leave out views that this loader of your training cannot read")
}
