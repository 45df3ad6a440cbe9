// Package sstable keeps items in a file that never changes, sorted by their keys.
//
// A [Table] is a tree of blocks with the items in its leaves. An item is a head and what
// holds its key; a [Layout] says how to tell, and how keys are ordered. Whatever refers to a
// block knows its checksum, from the [Seal] down, and a block is used only if it has that. So
// damage is an error, never a missing key: that a key is not there is as well proven as that
// it is. The file is read, not mapped: where it was truncated a read fails.
package sstable
