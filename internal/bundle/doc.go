// Package bundle writes the archive of `pipefs debug`: what a maintainer needs to know of a mount
// and its machine, without pictures, credentials, and names of files.
//
// # Nouns
//
// A part is one file of the archive. A scrubber takes credentials out of every part that is text,
// and hashes what may name a file: it keeps numbers and words that the program itself contains,
// and no other. Equal names have equal hashes within one archive only.
package bundle
