// Package cgroup finds the control groups of this process, in both versions, and the limits
// that they set.
//
// # Nouns
//
// A [Controller] is a part of the kernel that limits something. A [Hierarchy] is a mounted
// tree of groups, which in version 1 has some of the controllers, and in version 2 all. The
// [System] is the files in which the kernel describes them.
package cgroup
