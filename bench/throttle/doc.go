// Package throttle makes the disk slow on purpose, for measurements: with a cgroup
// of version 1 or 2, whichever the machine has. It needs root.
//
// A [Group] holds this process and all that it starts from then on, daemons
// included: whoever reads is the one to be held back.
package throttle
