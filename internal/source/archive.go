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
	mountIt   = "mount that: pipefs mount PATH MNT"
	exportIt  = "export its images as files, with the library that reads it, and mount their directory"
)

// archiveKind is a kind of file that holds many samples.
type archiveKind struct {
	what, magic string
	at          int // offset of magic
	extensions  []string
	do          string
}

// archives are kinds of files that hold many samples each. A compressed one is known by its name.
var archives = []archiveKind{
	{"a tar archive", "ustar", 257, []string{".tar"}, mountIt},
	{"a compressed tar archive", "", 0, []string{".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"}, fmt.Sprintf(extractIt, "tar -xf PATH -C DIR")},
	{"a zip archive", "PK\x03\x04", 0, []string{".zip"}, mountIt},
	{"a Parquet file", "PAR1", 0, []string{".parquet"}, mountIt},
	{"an HDF5 file", "\x89HDF\r\n\x1a\n", 0, []string{".h5", ".hdf5"}, exportIt},
	{"an LMDB database", "\xde\xc0\xef\xbe", 16, []string{".lmdb", ".mdb"}, exportIt},
}

// archiveOf goes by the beginning of a file, or by the extension of its name where head is empty; nil is no archive.
func archiveOf(name, head string) *archiveKind {
	for i := range archives {
		a := &archives[i]
		is := slices.ContainsFunc(a.extensions, func(ext string) bool { return strings.HasSuffix(strings.ToLower(name), ext) })
		if head != "" && a.magic != "" {
			is = len(head) > a.at && strings.HasPrefix(head[a.at:], a.magic)
		}
		if is {
			return a
		}
	}
	return nil
}

// archiveAt is archiveOf for a file that may not be readable.
func archiveAt(path string) *archiveKind {
	head := make([]byte, 512)
	n := 0
	if f, err := os.Open(path); err == nil {
		n, _ = f.Read(head) // what cannot be read is told by its name
		f.Close()
	}
	return archiveOf(path, string(head[:n]))
}

func (a *archiveKind) advice(quoted string) string {
	return fmt.Sprintf("%s: %s", a.what, strings.Replace(a.do, "PATH", quoted, 1))
}

// Archive says what an archive is and what to do with it, by its name; it is empty for other files. quoted is the
// path as a shell reads it.
func Archive(name, quoted string) string {
	if a := archiveOf(name, ""); a != nil {
		return a.advice(quoted)
	}
	return ""
}

// Mountable reports whether a file is an archive whose members can be mounted as they are.
func Mountable(path string) bool {
	a := archiveAt(path)
	return a != nil && a.do == mountIt
}

// NotDirectory says what a file is that was given as a dataset.
func NotDirectory(path string) error {
	if a := archiveAt(path); a != nil {
		return fmt.Errorf("%s is %s", path, a.advice(shell.Word(path)))
	}
	return fmt.Errorf("%s is not a directory, a tar, a zip or a Parquet file; a dataset is one of them, and a store is a directory", path)
}
