// Command reproduce runs the tables and figures of the four papers that pipefs is built
// on again, as far as one machine can. It writes docs/generated/reproduction.md: each figure of a
// paper beside ours, with the differences in set-up.
//
//	bin/research/reproduce -program bin/pipefs
//	bin/research/reproduce -only pcr-figure5
//	bin/research/reproduce -again
//
// # Nouns
//
// An item is a table, a figure or a section of a paper. Every one of the four papers is
// in the registry, either with an experiment or with the reason why there is none. A
// result is what an experiment measured, or its error. Results are kept one by one, so
// that a single experiment can be repeated.
//
// Photographs are the JPEG files that experiments on JPEG take: those below
// -pictures, or generated ones. The labelled set is for training: generated pictures
// whose classes differ in coarse, in middle and in fine structure.
//
// Experiments that need a slow disk put this process and its daemons into a cgroup, which
// takes root. Without root they fail, and the others go on.
package main
