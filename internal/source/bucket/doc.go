// Package bucket is a dataset in a bucket, or in any other place of objects.
//
// # Nouns
//
// A [Manifest] is the list of a place: the names, sizes, versions and times of its objects, in a
// file. [Write] lists a place and writes one. A [Bucket] is the dataset: its tree is that of
// the manifest, and the bytes of its files are those of the objects.
//
// # Names
//
// The name of an object is a path, and what stands before a slash is a directory. An object whose
// name is no path is left out, counted and logged: one with an empty part, with "." or "..", with a
// part of more than 255 bytes, or that is no UTF-8. So is an object whose name is also a directory,
// since others have it before a slash. An empty object whose name ends with a slash is a mark that
// some programs make for a directory; it is ignored.
//
// # Identity
//
// The identity of a file is made of what the list says of the object: its size, when it was
// modified, and a hash of its version (the ETag) and of the place. Each read asks for that version,
// so that the bytes of two versions are never mixed. If the object was replaced since it was listed,
// its readers get [source.ErrChanged] until the place is listed again.
package bucket
