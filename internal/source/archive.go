package source

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/human"
)

const (
	extractIt = "extract it (mkdir DIR && %s) and mount DIR"
	mountIt   = "mount that: pipefs mount PATH MNT"
	parquetIt = "write it as Parquet (datasets.load_from_disk(DIR).to_parquet(FILE)) and mount that: pipefs mount FILE MNT"
	// FFCV keeps pixels, or JPEGs that it has resized.
	originalIt = "mount the images that it was made of"
	exportIt   = "export its images as files, with the library that reads it, and mount their directory"
)

// archiveKind is a kind of file that holds many samples.
type archiveKind struct {
	what, magic string
	at          int // offset of magic
	extensions  []string
	do          string
	begins      func(head string) bool // in place of magic, or nil
}

// archives are kinds of files that hold many samples each. A compressed one is known by its name.
var archives = []archiveKind{
	{"a tar archive", "ustar", 257, []string{".tar"}, mountIt, nil},
	{"a compressed tar archive", "", 0, []string{".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"}, fmt.Sprintf(extractIt, "tar -xf PATH -C DIR"), nil},
	{"a zip archive", "PK\x03\x04", 0, []string{".zip"}, mountIt, nil},
	{"a TFRecord file", "", 0, []string{".tfrecord", ".tfrecords"}, mountIt, IsTFRecord},
	{"a Parquet file", "PAR1", 0, []string{".parquet"}, mountIt, nil},
	{"a 7z archive", "7z\xbc\xaf\x27\x1c", 0, []string{".7z"}, fmt.Sprintf(extractIt, "7z x -oDIR PATH"), nil},
	{"a RAR archive", "Rar!\x1a\x07", 0, []string{".rar"}, fmt.Sprintf(extractIt, "unrar x PATH DIR/"), nil},
	{"an HDF5 file", "\x89HDF\r\n\x1a\n", 0, []string{".h5", ".hdf5"}, exportIt, nil},
	{"an LMDB database", "\xde\xc0\xef\xbe", 16, []string{".lmdb", ".mdb"}, exportIt, nil},
	{"an Arrow file", "ARROW1", 0, []string{".arrow", ".feather"}, parquetIt, nil},
	{"an SQLite database", "SQLite format 3\x00", 0, []string{".sqlite", ".sqlite3", ".db"}, exportIt, nil},
	{"a dataset of FFCV", "", 0, []string{".beton"}, originalIt, nil},
	{"a shard of MosaicML Streaming", "", 0, []string{".mds", ".mds.zstd"}, exportIt, nil},
}

// archiveOf goes by the beginning of a file, or by the extension of its name where head is empty; nil is no archive.
func archiveOf(name, head string) *archiveKind {
	for i := range archives {
		a := &archives[i]
		is := slices.ContainsFunc(a.extensions, func(ext string) bool { return strings.HasSuffix(strings.ToLower(name), ext) })
		if head != "" && a.magic != "" {
			is = len(head) > a.at && strings.HasPrefix(head[a.at:], a.magic)
		}
		if a.begins != nil && head != "" {
			is = a.begins(head)
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

// IsTFRecord reports whether data begins as a TFRecord file does: with a length and its checksum.
func IsTFRecord(head string) bool {
	return len(head) >= 12 && RecordCRC([]byte(head[:8])) == binary.LittleEndian.Uint32([]byte(head[8:]))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// RecordCRC is the checksum of TFRecord: a CRC-32C that is rotated, since data may hold checksums itself.
func RecordCRC(b []byte) uint32 {
	crc := crc32.Checksum(b, castagnoli)
	return crc>>15 | crc<<17 + 0xa282ead8
}

// Mountable reports whether a file is an archive whose members can be mounted as they are.
func Mountable(path string) bool {
	a := archiveAt(path)
	return a != nil && a.do == mountIt
}

// NotDirectory says what a file is that was given as a dataset.
func NotDirectory(path string) error {
	if a := archiveAt(path); a != nil {
		return fmt.Errorf("%s is %s", path, a.advice(human.Word(path)))
	}
	return fmt.Errorf("%s is not a directory, a tar, a zip, a Parquet or a TFRecord file; a dataset is one of them, and a store is a directory", path)
}
