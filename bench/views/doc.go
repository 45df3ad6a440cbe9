// Package views measures the views of a dataset side by side, and says which one a
// loader should be pointed at.
//
// # Nouns
//
// A subject is what is measured: a view of a mount, or a control, the same files on
// the plain disk. All subjects are read through the same [loader.Loader], in the
// order of the same seeds, in rounds: in each, every subject has its turn, in random
// order, mounted anew by a daemon of its own. A turn is up to three epochs. The
// first finds nothing prepared and nothing cached; the cold one finds what the mount
// has kept on its disk, and nothing in the page cache, which is what every epoch of a
// dataset larger than memory finds; the cached one finds all that a page cache keeps.
//
// A [Row] is what was measured of a subject; a [Report] is all rows and the advice.
// What a view does in the long run is its lasting rate: that of cached epochs where
// all files of the view fit in memory, that of cold ones otherwise.
//
// Fetch, prep and ingest are the rates of DS-Analyzer (CoorDL, VLDB 2021): from the
// disk alone, from memory with all preparation, and of the accelerator alone.
package views
