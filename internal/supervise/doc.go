// Package supervise is the parent of a daemon: it mounts, and outlives the daemon.
//
// # Nouns
//
// The supervisor is a process that never touches a picture. It holds the descriptor of the
// mount's connection to the kernel. As long as a process holds the connection, readers wait
// for an answer instead of getting an error.
//
// The daemon is its child, which serves the connection. If it dies, the supervisor ends the
// connection, so that readers get an error. With Config.Restart it starts another daemon
// instead, which reads the journal, a file in memory in which the daemon before it wrote what
// the kernel was told, and goes on. If daemons die too often, or the next one does not come
// up, the supervisor gives up and ends the connection. On a takeover the supervisor has the
// daemon stop, and starts another program.
//
// The pipe joins the two: over it the supervisor has the daemon stop, and the daemon has
// the supervisor end the mount. If the supervisor dies, the daemon goes on without it.
//
// The supervisor answers at the control socket of the mount. It counts the holders of a
// shared mount, so that they outlive a daemon, and passes on what it cannot answer.
package supervise
