// Package remote shows a place of sealed objects, such as a part of a bucket, as a file
// system that is only read: a store there is opened as one in a directory is.
//
// # Nouns
//
// An [FS] is the place as it was listed, when that was first needed; each object is read in the
// version of that listing. Where a file at its top was replaced since, such as CURRENT, the place is
// listed once more before that file is opened. Anything else that was replaced is an error: two stores
// are never mixed up.
//
// Packs are read by ranges, through a block cache if there is one; who says that it reads them from
// end to end gets long ranges, past the cache. Of any other file there is a copy, fetched as a whole when the
// file is opened. Segments are read once, to make the index of this machine, and their copies go with
// it. All others are kept on the local disk, under names that follow from place, name and version, so
// that the mounts of a machine share them.
package remote
