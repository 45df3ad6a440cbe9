// Package export writes all files of a view into a directory, as plain files, without a mount.
//
// # Nouns
//
// [Run] walks a view and makes each of its files in the output, which is the directory that it
// writes into and never out of. A file appears there when it is whole. One that is there with the
// size and the time that it should have is skipped, so that an interrupted export goes on where it
// was. A [Report] counts what was done.
package export
