// Package serve makes the bytes of a view's file, once, and hands them to
// whoever asks: the mount, the bench, an export.
//
// # Nouns
//
// A [source.Tree] is where the tree comes from: a dataset, a store, or both. A [File]
// names one file of it together with the identity it had when it was looked up.
// [Content] is the open bytes of one file in one view: ranges of the dataset's
// own file, ranges of packs, or the result of the steps that had to be run. All
// readers of a result share it; it stays in the server's cache within a budget
// of bytes and descriptors.
//
// A store need not hold a file to give it back: what it holds may be the parts of the
// file and the data that reconstructs it from them, and the original is
// then a result like any other.
//
// A [Server] does the work: it asks the mixer's policy for the representation
// to start from, runs what steps remain on a bounded number of workers, keeps in
// the overlay store what had to be made to know its size, and, in the
// background, prepares the views that were touched.
package serve
