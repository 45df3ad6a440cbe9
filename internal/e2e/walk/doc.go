// Package walk tests a mount from outside: through the kernel, beside a tree on an ordinary file
// system that shows what the mount should. It knows nothing of how pipefs works, so it holds while
// that changes.
//
// A walk is a list of operations. Readers are processes that open, read, map and list files of the
// mount; each does its operations in order, beside the others. The world edits the dataset, refreshes,
// kills daemons and fills disks meanwhile. The files that it edits have three versions each, and every
// view of every version was exported before. A reader tells which versions its bytes are of, and
// history tells which of them there were when the file was opened.
//
// A walk that fails is made again with fewer operations, until none can be left out. What is left goes
// into testdata, as a test.
package walk
