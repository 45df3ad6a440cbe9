// Package names is a tree of files in an index: the files of a bucket, or the members of archives.
// A key is the path of a file; a value is whatever its source has to know of it. A path that ends
// with a slash is a directory that may be empty; every other directory is there because of the
// files below it.
//
// A directory hides a file of the same path. A path that no file can have is left out, counted
// and logged.
package names
