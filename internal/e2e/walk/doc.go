// Package walk tests a mount from outside: through the kernel, beside a tree on an ordinary
// file system that shows what the mount should.
package walk
