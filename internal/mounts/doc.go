// Package mounts knows what is mounted where, and how to take it away.
//
// # Nouns
//
// The table is the kernel's list of mounts, /proc/self/mountinfo; a [Mount] is a
// line of it. A mount of ours has the type [Type]. A mount is dead where its
// daemon is gone but the kernel still has it: every access then fails with
// "Transport endpoint is not connected".
//
// Nothing here trusts a mount to answer: a daemon may hang, so whatever touches
// a path below a mount is given a few seconds and then called hung.
package mounts
