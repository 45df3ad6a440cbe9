// Package ahead loads files before they are read, in the order that their readers have
// announced. Where the source is far away, a program that reads one file after the other waits
// for a round trip each; with hints these overlap.
//
// # Nouns
//
// A hint is a file of the mount of which a reader says that it is going to read it. The hints of
// one sender, in their order, are a stream. A stream sends messages: paths, or places in a list
// of samples of which it tells the digest. A message is an ioctl on any directory of the mount:
// whoever can read there can send it, in a container, too, and as another user, where the
// control socket cannot be reached. It is bounded by the kernel: [MaxMessage].
//
// The window of a stream is how many of its files are loaded ahead of its reader. It is doubled
// when a reader has to wait for a file that is being loaded, and halved when files that were
// loaded are not read; it shrinks while no reader waits. All streams together have a budget of bytes and of files. Where that is
// used up, nothing more is loaded before something is read.
//
// A file that was loaded and that nobody has read is dropped when its reader goes on, when its
// reader reads other files, and after a while. Nothing that is hinted changes what a reader
// gets: a hint that is wrong costs a load.
package ahead
