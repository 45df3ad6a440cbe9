// Package cgroup finds the control groups of this process, in both versions, and the limits
// that they set, and keeps the work of this process within the memory that there is.
//
// # Nouns
//
// A [Controller] is a part of the kernel that limits something. A [Hierarchy] is a mounted
// tree of groups, which in version 1 has some of the controllers, and in version 2 all. The
// [System] is the files in which the kernel describes them. A [Budget] is memory that all work
// of a process shares.
package cgroup
