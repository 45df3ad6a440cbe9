// Package chart draws what was measured, as SVG, with gonum.org/v1/plot.
//
// # Nouns
//
// A [Series] is values of one kind, each with its interval where there is one. A
// [Figure] is a chart that has not been drawn yet: it is laid out for the width that
// it is asked for, since what is read on a telephone cannot be a small picture of what
// is read on paper. It is drawn into a file, with its title on a white ground, or as
// an element of a page, without a title, in the colour of the page's text.
package chart
