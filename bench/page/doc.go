// Package page writes what a bench has measured as one HTML file, which needs nothing
// else: no network, no fonts, no scripts.
//
// # Nouns
//
// A [Section] is a part of the page: a heading, a [Table], figures, notes.
//
// All text is taken for what it says, never for markup: names of files may hold
// anything.
package page
