// Command pipefs mounts an image dataset as a directory of views.
//
// Each command stands in a file of its own, or in several that begin with its name, and is
// a [command]: its arguments, its options, its help and what it runs. An [option] is
// defined once, and from that come the long flag, its twin in -o for fstab, its line in the
// help, and the argument that the daemon is started with. What a mount is made of is in
// internal/mountd.
package main
