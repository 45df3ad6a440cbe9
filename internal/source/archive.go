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
	{what: "a tar archive", magic: "ustar", at: 257, extensions: []string{".tar"}, do: mountIt},
	{what: "a compressed tar archive", extensions: []string{".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"}, do: fmt.Sprintf(extractIt, "tar -xf PATH -C DIR")},
	{what: "a zip archive", magic: "PK\x03\x04", extensions: []string{".zip"}, do: mountIt},
	{what: "a TFRecord file", extensions: []string{".tfrecord", ".tfrecords"}, do: mountIt, begins: IsTFRecord},
	{what: "a Parquet file", magic: "PAR1", extensions: []string{".parquet"}, do: mountIt},
	{what: "a 7z archive", magic: "7z\xbc\xaf\x27\x1c", extensions: []string{".7z"}, do: fmt.Sprintf(extractIt, "7z x -oDIR PATH")},
	{what: "a RAR archive", magic: "Rar!\x1a\x07", extensions: []string{".rar"}, do: fmt.Sprintf(extractIt, "unrar x PATH DIR/")},
	{what: "an HDF5 file", magic: "\x89HDF\r\n\x1a\n", extensions: []string{".h5", ".hdf5"}, do: exportIt},
	{what: "an LMDB database", magic: "\xde\xc0\xef\xbe", at: 16, extensions: []string{".lmdb", ".mdb"}, do: exportIt},
	{what: "an Arrow file", magic: "ARROW1", extensions: []string{".arrow", ".feather"}, do: parquetIt},
	{what: "an SQLite database", magic: "SQLite format 3\x00", extensions: []string{".sqlite", ".sqlite3", ".db"}, do: exportIt},
	{what: "a dataset of FFCV", extensions: []string{".beton"}, do: originalIt},
	{what: "a shard of MosaicML Streaming", extensions: []string{".mds", ".mds.zstd"}, do: exportIt},
}

// archiveOf goes by the beginning of a file, or by the extension of its name where head is empty; nil is no archive.
func archiveOf(name, head string) *archiveKind {
	for i := range archives {
		a := &archives[i]
		is := slices.ContainsFunc(a.extensions, func(ext string) bool { return strings.HasSuffix(strings.ToLower(name), ext) })
		if head != "" && a.magic != "" {
			is = strings.HasPrefix(head[min(a.at, len(head)):], a.magic)
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
	var n int
	if f, err := os.Open(path); err == nil {
		n, _ = f.Read(head) // what cannot be read is told by its name
		f.Close()
	}
	return archiveOf(path, string(head[:n]))
}

func (a *archiveKind) advice(quoted string) string {
	return fmt.Sprintf("%s: %s", a.what, strings.ReplaceAll(a.do, "PATH", quoted))
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
