// Package mixer chooses, at each read, the representation from which a view of
// a sample is made.
//
// A view is the end of a pipeline, and a [Candidate] is a representation that
// stands for a prefix of it: the file of the dataset itself, for the empty
// prefix, or something that a store keeps. Reading the longest prefix leaves the
// decoder idle, reading the shortest one spares the disk; a [Policy] decides.
package mixer
