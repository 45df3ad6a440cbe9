// Package cachedir shares one directory and one limit among all mounts of a user:
// what they prepare is kept there, each mount in a slot of its own.
//
//	limit                 bytes, in decimal; without it the limit follows the disk
//	lock                  held while slots are taken, counted and removed
//	DATASET/dataset       the path; DATASET is a digest of it
//	DATASET/overlay.N/    what a mount keeps; the next one finds it again
//	DATASET/overlay.N.lock  held by the mount that uses it; see [Use]
//	DATASET/blocks.N/     pieces of objects that are far away, in files that do not need each
//	                      other; one mount writes there, and all of DATASET read it
//	DATASET/blocks.N.lock   held by the mount that writes
//	DATASET/known.0/      what else is known of a place that is far away; all who read it share it
//	DATASET/known.0.lock  held by each of them
//	removed-*             what is about to be removed
//
// A mount reserves the bytes that it may write, and reserves more when they are used up.
// What is reserved counts as if it were used, so that no two mounts are given the same room.
// When there is none left, slots that no mount uses are removed, the one that was used
// longest ago first; of one with blocks as many files as need be. A mount that is killed
// loses its locks, and with them what it had reserved: its slot counts as what it holds.
// What is known of places is not asked for room: it counts, and goes like the rest.
package cachedir
