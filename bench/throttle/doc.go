// Package throttle makes a machine small on purpose, for measurements: a slow disk,
// little memory. It does so with cgroups of version 1 or 2, whichever the machine
// has, and needs root.
//
// A [Group] holds this process and all that it starts from then on, daemons
// included: whoever reads is the one to be held back. [Limits] are what it holds
// them to, all of them together. What ran before is not inside, and what it has in
// the page cache is not counted: drop that first.
package throttle
