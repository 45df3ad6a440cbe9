package source

import "encoding/binary"

// Version is what an identity has beside the size: bytes that only the source that made
// them understands. Two equal ones of one name and size are taken to be the same bytes.
type Version [24]byte

// Version returns the bytes that stand for inode, mtime and ctime.
func (i Identity) Version() (v Version) {
	binary.LittleEndian.PutUint64(v[0:], i.ID)
	binary.LittleEndian.PutUint64(v[8:], uint64(i.MTime))
	binary.LittleEndian.PutUint64(v[16:], uint64(i.CTime))
	return v
}

// IdentityOf is the identity of that size and version.
func IdentityOf(size int64, v Version) Identity {
	return Identity{
		ID: binary.LittleEndian.Uint64(v[0:]), Size: size,
		MTime: int64(binary.LittleEndian.Uint64(v[8:])), CTime: int64(binary.LittleEndian.Uint64(v[16:])),
	}
}
