// Package index is a sorted map from byte strings to byte strings, in a directory that is
// written once and then only read. It is kept by Badger.
//
// Badger answers "no such key" where it cannot read a block, and faults where a file that it has
// mapped was cut. So each entry names the one behind it, and has a checksum of its own: a key is
// absent only if the entry before it says so, and a walk sees each entry that there is. What
// Badger trusts when it opens a directory is compared with a sealed list first. Faults in
// mappings become errors of the class [ErrCorrupt].
//
// A value in Badger is a CRC32C (4 bytes) of the build's id, the key and the remainder of the value; the number
// of continuation keys; the next key, as length of the prefix shared with this key, length of the rest, and
// the rest (the last key has none); then what the caller gave. A value of more than 512 KiB continues at
// the key, two zero bytes, and a number (2 bytes, big-endian). Lengths are uvarint.
//
// What remains is a bit that flips in the index of a table that is mapped: an assertion of
// Badger's ends the process then.
//
// A [Sorter] sorts more than memory holds, in files that have no name.
//
// An index is built by a process of its own, see [Create]: Badger ends the process where the
// disk is full.
package index
