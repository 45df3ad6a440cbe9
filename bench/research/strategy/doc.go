// Package strategy measures where a pipeline is best split: how much of it to compute
// once and store, and how much to repeat at each read. It is the profiler of PRESTO
// (Isenko and others, SIGMOD 2022), for the steps of this program.
//
// # Nouns
//
// A [Split] is a place where a pipeline can be cut. The prefix before it is run offline,
// once, and its results are stored. The rest is run online, in every epoch. `unprocessed`
// stores nothing: the files of the dataset are read one by one, in random order.
// `packed`, which PRESTO calls concatenated, stores the files as they are, one after
// another. `decoded` stores pixels. Each later split is named after the last step of its
// prefix.
//
// A strategy is a split, a compression of what is stored, and a number of workers. It is
// a [Row] of the [Report]. What is stored lies in shards, one for each worker: streams of
// samples that are written and read from end to end.
//
// A cache is what an epoch finds in memory. none: everything comes from the disk. system:
// the page cache, filled by an epoch before. application: the deserialised samples in the
// memory of the reader.
//
// The score of a strategy is PRESTO's: offline time, bytes stored and throughput, each
// brought to the range from 0 to 1 over all strategies, and weighted.
//
// # Rules
//
// All strategies of a pipeline give the same results, bit for bit. A run checks their
// number and size in each epoch. The first pass over the samples is not measured. It
// finds samples that no codec can read, and how large everything is, so that a run which
// the disk has no room for is refused before it begins.
package strategy
