// Package strategy measures where a pipeline is best split: how much of it is to be
// computed once and stored, and how much done again at each read. It is the
// profiler of PRESTO (Isenko and others, SIGMOD 2022), over the steps of this
// program.
//
// # Nouns
//
// A [Split] is a place where a pipeline can be cut. The prefix before it is run
// offline, once, and its results are stored; the rest is run online, in every epoch.
// `unprocessed` stores nothing: the files of the dataset are read one by one, in
// random order. `packed`, which PRESTO calls concatenated, stores the files as they
// are, one after another. `decoded` stores pixels; each split after it is named after
// the last step of its prefix.
//
// A strategy is a split, a compression of what is stored, and a number of workers: a
// [Row] of the [Report]. What is stored lies in shards, one a worker, that are
// written and read from end to end: records of a length, the sample's number, a
// checksum and a body. The body of encoded files is the file; that of pixels is a
// header of a few dozen bytes and the pixels as they are.
//
// A cache is what an epoch finds in memory: none, so that everything comes from the
// disk; system, the page cache that an epoch before it has filled; application, the
// deserialised samples in the memory of the reader.
//
// A strategy's score is that of PRESTO: offline time, bytes stored and throughput,
// each brought to the range from 0 to 1 over all strategies, and weighted.
//
// # Rules
//
// All strategies of a pipeline give the same results, bit for bit; a run checks
// their number and size in each epoch. The first pass over the samples is not
// measured: it finds those that no codec can read, and how large everything is, so
// that nothing is begun that the disk has no room for.
package strategy
