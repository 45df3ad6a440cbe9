// Package shared is how several processes get one mount between them: the first one starts
// it, each one holds it, and its daemon ends when the last holder is gone.
//
// # Nouns
//
// A key says what is mounted and how: what has one key may be shared. A [Place] is where a
// shared mount with that key lies: a directory that was named, or one that is chosen by the
// key. A holder has a connection to the daemon, see package control.
//
// One process at a time starts, joins or takes away what is at a place: the one that has
// its [Lock]. So a place has one daemon, however many processes ask for it at once.
package shared
