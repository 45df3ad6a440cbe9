// Package views measures the views of a dataset side by side, and says which one a
// loader should be pointed at.
//
// # Nouns
//
// A subject is what is measured: a view of a mount, or a control, which is the same files
// on the plain disk. All subjects are read by the same [loader.Loader], in rounds. In
// each round every subject has its turn, in random order, mounted by a daemon of its own.
// A turn is up to three epochs. The first epoch finds nothing prepared and nothing
// cached. The cold epoch finds what the mount has kept on its disk, and nothing in the
// page cache: every epoch of a dataset larger than memory is like this. The cached epoch
// finds all that a page cache keeps.
//
// A [Row] is what was measured of a subject. A [Report] is all rows and the advice. The
// lasting rate of a view is what a long training sees: that of cached epochs where all
// files of the view fit in memory, that of cold ones otherwise.
//
// Fetch, prep and ingest are the rates of DS-Analyzer (CoorDL, VLDB 2021): from the
// disk alone, from memory with all preparation, and of the accelerator alone.
package views
