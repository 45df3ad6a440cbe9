// Package shard divides the packing of a dataset among any number of machines.
//
// # Nouns
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
package shard
