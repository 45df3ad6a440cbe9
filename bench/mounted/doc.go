// Package mounted runs `pipefs mount` for measurements: as a process of its own, so
// that what the daemon uses can be told from what the loader uses, and gone when the
// measurement ends, however it ends.
//
// # Nouns
//
// A [Mount] is a mount with its daemon, whose log, control socket and cache are in
// a temporary directory that goes with it. Its [Usage] is what the daemon took of
// the machine; its statistics are what it counted itself.
package mounted
