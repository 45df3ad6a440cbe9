// Package blob keeps sealed objects: named sequences of bytes that do not change once they
// are there, in a directory or in a bucket.
//
// # Nouns
//
// [Objects] is a place for objects: a directory with everything below it, or the part of a
// bucket whose keys begin with a prefix. The name of an object is relative to it, with slashes.
//
// A [Version] tells two contents of one name apart: the ETag of a bucket, the inode and the times
// of a file. A read names the version that it wants, so that old and new bytes are never mixed.
//
// # Writing
//
// PutIfAbsent seals an object; two writers of the same name cannot both succeed. One
// small object may move: PutIfMatch replaces the version that the writer has seen, and no
// other. Where an answer was lost, the object tells who wrote it.
//
// # Buckets
//
// A [Bucket] repeats what fails on the way, after pauses that grow, for as long as its patience
// lasts. How many requests are in flight follows what the server bears. Then an error is final: it
// says which object, at which server, and what to do, and never a secret.
//
// # The Hub
//
// A [Hub] is a dataset of the Hugging Face Hub at one commit. It is a [Snapshot], which does not change, and it is only
// read. Versions are SHA-256 of Git LFS, or hashes of git. The Hub answers with links to other servers, which expire.
//
// # Reserved names
//
// Names that begin with .pipefs- are those of the place itself, and are not listed: files that are
// not finished, a lock, and the object by which a Bucket sees that the server keeps to conditions.
package blob
