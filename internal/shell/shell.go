// Package shell writes words for command lines that are shown to users.
package shell

import (
	"regexp"
	"strings"
)

var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Word writes text so that a shell takes it for one word.
func Word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return Quote(text)
}

// Quote puts text between single quotes.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
