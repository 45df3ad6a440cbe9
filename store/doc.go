// Package store keeps what prefixes of pipelines made of the samples of a
// dataset. It knows byte ranges and checksums, not what a picture is.
//
// # Nouns
//
// A store is a directory. The truth is in its packs; everything else can be
// made again from them.
//
// A pack is a file that is written once: records, then a footer that describes
// them completely. Until it is sealed it is named NNNNNN.pack.part.
//
// A record is K samples stored together, scan group by scan group: the first
// part of every sample, then the second of every sample, and so on. With K = 1
// one sample follows another.
//
// An entry is one name of the dataset's tree as of the time of packing: a
// [Sample] of kind [File], [Dir] or [Tombstone]. Of several entries with the
// same path the last one in the newest pack counts.
//
// A [Representation] is the result of a pipeline's prefix: parts, then a tail
// of literal bytes. A [Part] is a range of a pack. It is checked in chunks of
// [ChunkSize] bytes, with CRC32C, on every read.
//
// The index finds an entry by its path. It is a table, a sorted file in which every
// block is checked when it is read, kept in immutable generations, index.N; the file
// CURRENT names the one to use. Where it is damaged it is made again from the packs.
//
// A [Fraction] is what one pipeline made of some of the samples, kept in the store:
// packs of their own, named by the pipeline. It is a copy, and can be made again.
//
// An [Overlay] is a private store that grows while it is used: what a mount
// produced and wants to keep.
//
// # Who may do what
//
// [Pack] is the one writer of a store, and holds its lock. Any number of
// processes may [Open] it at the same time; they see the generation that was
// current then, and are never refused because something writes. An [Overlay]
// belongs to one process.
//
// The layout of every file is in docs/store-format.md.
package store
