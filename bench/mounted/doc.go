// Package mounted runs `pipefs mount` for measurements, as a process of its own: so what
// the daemon uses can be told from what the loader uses. The mount is gone when the
// measurement ends, however it ends.
//
// # Nouns
//
// A [Mount] is a mount with its daemon. Log, control socket and cache of the daemon are
// in a temporary directory, which is removed with the mount. [Usage] is what the daemon
// used of the machine. Its statistics are its own counters.
package mounted
