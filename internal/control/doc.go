// Package control is how other processes talk to the daemon of a mount: they ask
// for its statistics and move the fidelity of `current`.
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
// Both carry the protocol's version. A daemon refuses a version that it does not
// know; fields that a peer does not know are ignored.
//
// # Who may
//
// The socket lies in a directory that only its owner may enter, and the kernel
// tells who called: only the user of the daemon and root are answered.
package control
