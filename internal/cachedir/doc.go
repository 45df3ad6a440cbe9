// Package cachedir shares one directory and one limit among all mounts of a user:
// what they prepare is kept there, each mount in a slot of its own.
//
//	limit                 bytes, in decimal; without it the limit follows the disk
//	lock                  held while slots are taken, counted and removed
//	DATASET/dataset       the path; DATASET is a digest of it
//	DATASET/overlay.N/    what a mount keeps; the next one finds it again
//	DATASET/overlay.N.lock  held by the mount that uses it; see [Use]
//	removed-*             what is about to be removed
//
// A mount may take what it was granted, in bytes, and asks for more. A grant counts as
// if it were used, so that no two mounts are given the same room; when there is none
// left, slots that no mount uses are removed, the one that was used longest ago first.
// A mount that is killed loses its locks, and with them its grant: what it left counts
// as what it is.
package cachedir
