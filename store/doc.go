// Package store keeps what prefixes of pipelines made of the samples of a
// dataset. It knows byte ranges and checksums, not what a picture is.
//
// # Nouns
//
// A store is a directory. The truth is in its packs; everything else can be
// made again from them.
//
// A pack is a file that is written once: records, then a footer that describes
// them completely. It has an age, which orders packs, and an id, which tells it from all
// others. Until it is sealed it is named by its age alone, AGE.pack.part.
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
// A table is a sorted file of entries in which every block is checked when it is read.
// A segment is the table of one pack, written when the pack is sealed.
//
// A generation is a small file that names all packs that count, and their segments. It
// never changes; the file CURRENT names the one to use. To add to a store is to write
// packs, their segments and a generation, and to replace CURRENT.
//
// The index finds an entry by its path. It is one table, merged from the segments of a
// generation on the machine that reads, once, and kept: see [Options.IndexDir]. For the
// next generation it is merged with the new segments alone. What is damaged, of an index or
// of a segment, is made again from the packs.
//
// A [Fraction] is what one pipeline made of some of the samples, kept in the store:
// packs of their own, named by the pipeline. It is a copy, and can be made again.
//
// An [Overlay] is a private store that grows while it is used. It holds what a mount
// produced and keeps.
//
// A result is a record of a fraction or of an overlay: one representation of one sample.
// A hash index, made in memory when the packs are opened, finds it by path and key.
//
// # Writing
//
// All three kinds of packs are written by a packLog, and what goes into them is made by
// inOrder: on several goroutines, and stored in the order in which it was found. For
// [Pack] the work is what the dataset has and the store lacks; for [Store.Materialize] it
// is what is wanted and not there. A resultWriter removes packs of results that are not
// used any more, after it has copied the others.
//
// # Who may do what
//
// One process at a time writes to a store, and holds its lock. Any number of
// processes may [Open] it meanwhile: they see the generation that was current then. An [Overlay]
// belongs to one process.
//
// The layout of every file is in docs/store-format.md.
package store
