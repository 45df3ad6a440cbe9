// Package page writes what a bench has measured as one HTML file, which needs nothing
// else: no network, no fonts, no scripts.
//
// # Nouns
//
// A [Section] is a part of the page: a heading, text, a [Table], figures, notes. The
// views of a report become sections of their own; whatever else was measured in the
// same run is added as more of them. [Plots] writes the figures alone, as SVG and PNG.
//
// All text is taken for what it says, never for markup: names of files may hold
// anything.
package page
