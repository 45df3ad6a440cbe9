// Package packing makes and changes stores: what pipefs pack, plan, commit and compact do between
// their flags and their messages.
//
// # Nouns
//
// A [Target] is the store that is written to, in a directory or in a bucket. Its [Writer] has the
// files of the store: those in a bucket are built in a directory of this machine, and put when they
// are finished.
//
// A [Config] says what of a dataset is put there, and how. [Config.Pack] does all of it;
// [Config.Making] and [Config.Worker] are the two halves of packing by many machines.
//
// # Many machines
//
// The packing of a dataset is divided among any number of machines.
//
// A [Plan] is an object of a store that never changes: what is to be packed, in order, cut into
// ranges, with all that the result depends on. It is named by its digest. The same list of a
// dataset, the same store and the same options make the same plan, byte for byte.
//
// A shard is one such range. Whoever packs it makes the same packs, since these hold what
// the plan says of each entry and nothing that only one machine knows.
//
// A [Marker] says that a shard is done: its packs, and what was left out. It is put when
// the packs are, and only if there is none.
//
// A commit makes the packs of all shards a part of the store.
//
// # Where things lie
//
// Names are relative to the store: plans/ID.plan, and below plans/ID/ the packs, their segments and the
// markers. What is there belongs to the store only once the plan is committed.
//
// # Layout of a plan
//
// Blocks of entries, one for each shard, without gaps; rows of 72 bytes, one for each shard ([Row]: five
// numbers of 8 bytes, and the SHA-256 of the block); the header as JSON ([Header]); the trailer of 64 bytes:
// length of the header (8), its SHA-256, which is the plan's digest (32), version (4), zeros (8), CRC32C of
// the 52 bytes before it (4), "pipefsPL". Numbers are little-endian.
//
// An entry, with uvarint numbers: length of the path's prefix that it shares with the entry before (0 at the
// start of a block), length of the rest, the rest; kind (1 byte); of files and directories also mode, size,
// the 24 bytes of the source's version, length and bytes of the object's version. Its sequence number is
// FirstSeq plus its number in the plan.
package packing
