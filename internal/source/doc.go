// Package source is where names and original bytes come from. A [Tree] tells names and
// attributes. A [Directory] is the tree of a directory of the user; it is never written to.
//
// A path is relative to the dataset's root, with slashes, and "" is the root
// itself. Symbolic links are followed and appear as what they point to, since
// Hugging Face snapshots and link farms are made of them; a link that leads back
// to a directory above itself is a cycle and is left out, and so is one that
// leads nowhere. With [Options.NoFollow] no link may leave the dataset.
//
// An [Identity] tells whether a file is still the one that was seen before. A
// [Watcher] tells when it is time to look, on local file systems.
package source
