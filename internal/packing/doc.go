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
// [Config.Making] and [Config.Worker] are the two halves of packing by many machines, see package
// shard.
package packing
