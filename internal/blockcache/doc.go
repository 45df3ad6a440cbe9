// Package blockcache keeps on the local disk what was read of objects far away.
//
// # Nouns
//
// An [Object] is read in units of 1 KiB. A piece is some neighbouring units that are kept together,
// all of them of one block of 32 KiB. Who reads on from where it begins gets whole blocks;
// who says that it does not, see [Object.Scattered], gets the units that it asks for, so that of a
// store no more is fetched than a view shows.
//
// A unit that is not in the cache is missing: the first reader begins a flight, which is one request
// for it and the missing units beside it, and all readers of these wait for that flight.
//
// A bucketCache holds the pieces of one place of objects. It is a slot of [cachedir], beside the
// slots of other mounts of the same place: each process writes to its own slot and reads all
// of them. The limit of the directory holds for all slots of all places together.
//
// A segment is a file of a slot: a table of what is in it, and then the pieces, one after
// the other. It is only ever appended to, and removed as a whole.
//
//	0       magic, number of places in the table, CRC32C
//	32      the table; 32 bytes for each piece: key of the block, offset, first unit, length,
//	        CRC32C of key and bytes, CRC32C of these fields
//	…       from the next multiple of 4096 on: pieces
//
// # What may happen to the files
//
// No file is ever synced or repaired. A piece is used only if its bytes have the checksum that
// the table has for the key of this version of this object; anything else is missing,
// and it is fetched again. So a process may be killed and the disk may lose or damage what it
// likes. A disk that is full means that nothing more is kept.
//
// What comes from the place is not verified here: ranges of plain objects have no checksum that
// could be. Who reads a format that has checksums calls [Object.Forget] where they are wrong.
//
// # What is kept
//
// What came first stays, as with [MinIO]: of a dataset that is read in a new order each epoch
// any part is as good as any other, and a part that stays gives hits and costs no writes. Two
// kinds of pieces go when there is no more room: those of places that no mount uses,
// the one that was used longest ago first; and segments that nobody reads while the
// other ones are read four times over, or that give no hits at all while eight times as much
// is read as is kept.
//
// The index is in memory, and takes 24 to 29 bytes for each piece: up to 50 MB for 50 GB, and
// 1 GB for 1 TB, of whole blocks. Where what is read is shorter than a block, pieces are shorter, too.
//
// [cachedir]: https://pkg.go.dev/github.com/pipefs/pipefs/internal/cachedir
// [MinIO]: https://www.vldb.org/pvldb/vol14/p771-mohan.pdf
package blockcache
