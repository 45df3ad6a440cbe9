// Package archive shows the members of tar, zip and TFRecord files, and the rows of Parquet files, as a dataset. Nothing is
// extracted: a member is a range of its archive, or lies in a compressed one.
//
// An archive is scanned once. What was found is an index, see package names, that all mounts of a
// user share; it holds as long as no archive has another identity. A value of the index says
// where a member is. A [Dataset] lies on another one, whose files are the archives: a directory,
// or a bucket.
//
// A tar within a tar is a directory of its name. A tar whose members belong together by their
// names up to the first dot is a shard of WebDataset: where there is KEY.cls, all members of KEY
// are in a directory of its class.
//
// A row of a Parquet file is a file. Its name comes from small columns; its length takes reading the
// column that it lies in, which is done behind.
package archive
