// Package throttle makes a machine small on purpose, for measurements: a slow disk,
// little memory. It does so with cgroups of version 1 or 2, whichever the machine
// has, and needs root.
//
// A [Group] holds this process and all processes that it starts from then on, daemons
// included. [Limits] hold for all of them together. A process that was started before is
// not in the group. What is in the page cache already is not limited: drop it first.
package throttle
