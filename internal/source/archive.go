package source

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/shell"
)

const (
	extractIt = "extract it (mkdir DIR && %s) and mount DIR"
	exportIt  = "export its images as files, with the library that reads it, and mount their directory"
)

// archives are kinds of files that hold many samples each. A compressed one is known by its name.
var archives = []struct {
	what, magic string
	at          int // offset of magic
	extensions  []string
	do          string
}{
	{"a tar archive", "ustar", 257, []string{".tar"}, fmt.Sprintf(extractIt, "tar -xf PATH -C DIR")},
	{"a tar archive", "", 0, []string{".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"}, fmt.Sprintf(extractIt, "tar -xf PATH -C DIR")},
	{"a zip archive", "PK\x03\x04", 0, []string{".zip"}, fmt.Sprintf(extractIt, "unzip -q PATH -d DIR")},
	{"a Parquet file", "PAR1", 0, []string{".parquet"}, exportIt},
	{"an HDF5 file", "\x89HDF\r\n\x1a\n", 0, []string{".h5", ".hdf5"}, exportIt},
	{"an LMDB database", "\xde\xc0\xef\xbe", 16, []string{".lmdb", ".mdb"}, exportIt},
}

// Archive says what an archive is and what to do with it; it is empty for other files. It goes by
// the beginning of the file, or by the extension of name where head is empty. quoted is the path
// as a shell reads it.
func Archive(name, quoted, head string) string {
	for _, a := range archives {
		is := slices.ContainsFunc(a.extensions, func(ext string) bool { return strings.HasSuffix(strings.ToLower(name), ext) })
		if head != "" && a.magic != "" {
			is = len(head) > a.at && strings.HasPrefix(head[a.at:], a.magic)
		}
		if is {
			return fmt.Sprintf("%s, and pipefs reads directories of image files: %s", a.what, strings.Replace(a.do, "PATH", quoted, 1))
		}
	}
	return ""
}

// NotDirectory says what a file is that was given as a dataset.
func NotDirectory(path string) error {
	head := make([]byte, 512)
	if f, err := os.Open(path); err == nil {
		_, _ = f.Read(head) // what cannot be read is no archive
		f.Close()
	}
	if what := Archive(path, shell.Word(path), string(head)); what != "" {
		return fmt.Errorf("%s is %s", path, what)
	}
	return fmt.Errorf("%s is not a directory; a dataset is one, and a store is one", path)
}
