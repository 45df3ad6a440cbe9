// Package serve makes the bytes of a view's file, once, and hands them to
// whoever asks: the mount, the bench, an export.
//
// # Nouns
//
// A [File] names a file of a [source.Tree] together with the identity that it had when it
// was looked up. [Server.Resolve] decides how it is shown in a view: the result is a
// [Handle], which never changes. [Handle.Open] gives [Content]: ranges of the dataset's
// own file, ranges of packs, or the result of the steps that had to be run. All
// readers of a result share it. One cache holds what is open, within a budget
// of bytes and descriptors.
//
// A read starts from a candidate: a representation that exists, of a prefix of the plan.
// The mixer's policy chooses among them. Those in a fraction or in the overlay are copies:
// one that is lost is made again from another candidate, and no reader notices.
//
// A store need not hold a file to give it back: what it holds may be the parts of the
// file and the data that reconstructs it from them. The original is
// then a result like any other.
//
// What had to be made to know its size, or is smaller than its source, is kept in the
// overlay, after the reader was answered.
package serve
