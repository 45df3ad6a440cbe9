// Package daemon puts a program in the background and tells those who started it
// how it went.
//
// A Go program cannot fork: only one of its threads would survive. So the parent
// runs its own program once more, as a child in a session of its own, with a pipe
// between them. Over the pipe the child says what it is doing, that it is ready,
// or what went wrong, one line of JSON each; the parent waits for that and exits
// accordingly. The child starts with its arguments and a configuration, which it reads from
// another pipe: whatever it opens it opens itself, and no lock or connection has to survive the change of process.
package daemon
