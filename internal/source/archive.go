package source

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

const untar = "tar -xf %s -C DIR"

// archives are kinds of files that hold many samples each.
var archives = []struct {
	what, magic string
	at          int // offset of magic
	extensions  []string
	extract     string // a command, of the file
	packed      bool   // magic is that of any compressed file
}{
	{"a tar archive", "ustar", 257, []string{".tar"}, untar, false},
	{"a tar archive", "\x1f\x8b", 0, []string{".tar.gz", ".tgz"}, untar, true},
	{"a tar archive", "BZh", 0, []string{".tar.bz2", ".tbz2"}, untar, true},
	{"a tar archive", "\xfd7zXZ", 0, []string{".tar.xz", ".txz"}, untar, true},
	{"a tar archive", "\x28\xb5\x2f\xfd", 0, []string{".tar.zst"}, untar, true},
	{"a zip archive", "PK\x03\x04", 0, []string{".zip"}, "unzip -q %s -d DIR", false},
	{"a Parquet file", "PAR1", 0, []string{".parquet"}, "", false},
	{"an HDF5 file", "\x89HDF\r\n\x1a\n", 0, []string{".h5", ".hdf5"}, "", false},
	{"an LMDB database", "\xde\xc0\xef\xbe", 16, []string{".lmdb", ".mdb"}, "", false},
}

// Archive says what an archive is and what to do with it; it is empty for other files. It goes by
// head, the beginning of the file, or by the extension of name where head is nil. quoted is the path
// as a shell reads it.
func Archive(name, quoted string, head []byte) string {
	name = strings.ToLower(name)
	for _, a := range archives {
		named := slices.ContainsFunc(a.extensions, func(ext string) bool { return strings.HasSuffix(name, ext) })
		found := len(head) >= a.at && strings.HasPrefix(string(head[min(a.at, len(head)):]), a.magic)
		switch {
		case head == nil && !named, head != nil && !found, a.packed && !named:
			continue
		case a.extract == "":
			return a.what + ", and pipefs reads directories of image files: export its images as files, with the library that reads it, and mount their directory"
		}
		return fmt.Sprintf("%s, and pipefs reads directories of image files: extract it (mkdir DIR && "+a.extract+") and mount DIR", a.what, quoted)
	}
	return ""
}

// NotDirectory says what a file is that was given as a dataset.
func NotDirectory(path, quoted string) error {
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		head := make([]byte, 512)
		n, _ := f.Read(head) // an unreadable file is no archive
		if what := Archive(path, quoted, head[:n]); what != "" {
			return fmt.Errorf("%s is %s", path, what)
		}
	}
	return fmt.Errorf("%s is not a directory; a dataset is one, and a store is one", path)
}
