// Command pipefs mounts an image dataset as a directory of views.
//
// Each command stands in a file of its own and is a [command]: its arguments, its
// options, its help and what it runs. An [option] is defined once, and from that
// come the long flag, its -o twin for fstab, its line in the help, and the
// argument that the daemon is started with. The files wire_*.go alone know how the
// rooms of pipefs are put together.
package main
