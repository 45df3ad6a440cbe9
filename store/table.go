package store

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/pipefs/pipefs/internal/sstable"
	"github.com/pipefs/pipefs/store/vfs"
)

// leafHead is what stands before an entry in a table: pack, offset and length of the record's
// data.
const leafHead = 20

// entries is the layout of tables of entries.
var entries = &sstable.Layout{Head: leafHead, MaxItem: leafHead + maxEntry, Key: entryPath, Order: sstable.ByDirectory}

// table is a table of entries.
type table struct {
	*sstable.Table
	f    vfs.File
	seal tableSeal
}

// entryPath is the path of an encoded entry; empty where it cannot be read.
func entryPath(raw []byte) []byte {
	n, k := binary.Uvarint(raw)
	if k <= 0 || n > uint64(len(raw)-k) {
		return nil
	}
	return raw[k : k+int(n)]
}

// splitPath divides a path into directory and name.
func splitPath(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "", p
	}
	return p[:i], p[i+1:]
}

// inDir reports whether a path names a member of a directory.
func inDir(path []byte, dir string) bool {
	i := max(bytes.LastIndexByte(path, '/'), 0)
	return len(path) > 0 && string(path[:i]) == dir
}
