// Package supervise is the parent of a daemon whose mount has to outlive it.
//
// # Nouns
//
// The supervisor is a process that never touches a picture. It holds the descriptor of the
// mount's connection to the kernel, and the journal: a file in memory in which the daemon
// writes what the kernel was told. As long as somebody holds the connection, readers wait
// for an answer instead of getting an error.
//
// The daemon is its child, which serves the connection. If it dies, the supervisor starts
// another one, which reads the journal and goes on. If it dies too often, or the next one
// does not come up, the supervisor gives up: it unmounts, and readers get an error instead
// of waiting for ever. On a takeover the supervisor has the daemon stop, and starts another
// program.
//
// The pipe joins the two: over it the supervisor has the daemon stop, and the daemon has
// the supervisor end the mount. If the supervisor dies, the daemon goes on without it.
//
// The supervisor answers at the control socket of the mount. It counts the holders of a
// shared mount, so that they outlive a daemon, and passes on what it cannot answer.
package supervise
