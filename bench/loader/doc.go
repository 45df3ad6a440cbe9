// Package loader reads pictures as a training loader does, so that views can be
// compared without Python.
//
// # Nouns
//
// A [Pass] reads a list of files once, on several workers, in the order of the
// list, and decodes each as Pillow would: whole files, in the blocks in which
// CPython reads them. A [Result] is what it took: seconds, CPU seconds of this
// process, bytes, and how long single files took.
//
// [Forget] makes the page cache drop what lies below a directory, so that the next
// pass finds it on the disk, as the first epoch of a training does.
package loader
