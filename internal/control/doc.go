// Package control is how other processes talk to the daemon of a mount: they ask
// for its statistics, move the fidelity of `current`, ask whether a view is one and why a
// read failed, and hold a shared mount.
//
// # The protocol
//
// A stream socket in the file system; there is never a TCP port. The mount shows
// its path as the symbolic link MNT/.pipefs/control, which is how clients find
// it. A client sends one line of JSON, a [Request], and the daemon answers with
// one line of JSON, a [Reply]; then it closes the connection:
//
//	{"v":1,"op":"fidelity","scans":5}
//	{"v":1,"current":"scan5"}
//
// The connection of "hold" stays open, and nothing more is said on it. As long as it is
// open, the client is a holder of the mount:
//
//	{"v":1,"op":"hold"}
//	{"v":1,"mount":"/home/me/m","pid":4711}
//
// The kernel closes the connection when the last process that has the descriptor closes
// it or ends; a forked process has a copy. When a shared mount has no holder left, its
// daemon unmounts and ends. A daemon that has begun to end refuses, with "ending": the
// client waits until the mount is gone and mounts again. A mount that is not shared
// cannot be held.
//
// Both carry the protocol's version. A daemon refuses a version that it does not
// know; fields that a peer does not know are ignored.
//
// # Shared mounts
//
// Several processes get one mount between them: the first one starts it, each one holds it. What
// is mounted and how makes a key, see [ShareKey]. A [Place] is where the mount with that key lies:
// a directory that was named, or one that is chosen by the key. One process at a time starts,
// joins or takes away what is at a place: the one that has its [Lock]. So a place has one daemon,
// however many processes ask for it at once.
//
// # Who may
//
// The socket lies in a directory that only its owner may enter, and the kernel
// tells who called: only the user of the daemon and root are answered.
package control
