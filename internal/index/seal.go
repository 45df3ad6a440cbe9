package index

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4/fb"
)

const (
	sealName    = "INDEX.json"
	maxSeal     = 16 << 20
	sealVersion = 2
)

// seal is what INDEX.json says. It is written last.
type seal struct {
	Version int             `json:"version"`
	ID      string          `json:"id"`
	Build   buildID         `json:"build"`
	Keys    int64           `json:"keys"`
	Meta    json.RawMessage `json:"meta"`
	Files   []sealedFile    `json:"files"` // all others in the directory
}

// sealedFile is one file: its size, and a checksum of what Badger trusts while it opens the file,
// which is all from an offset on.
type sealedFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	From int64  `json:"from,omitempty"`
	Sum  uint32 `json:"crc32c"`
}

// MarshalText implements [encoding.TextMarshaler].
func (id buildID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *buildID) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(id)) {
		return errors.New("a build id has 32 digits")
	}
	_, err := hex.Decode(id[:], b)
	return err
}

// Is reports whether a directory holds an index, which may be damaged.
func Is(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, sealName))
	return err == nil
}

func (s *seal) read(dir string) error {
	name := filepath.Join(dir, sealName)
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.Size() > maxSeal {
		return fmt.Errorf("%s: %w: %d bytes", name, ErrCorrupt, info.Size())
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := Unseal(b, s); err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrCorrupt, err)
	}
	if s.Version != sealVersion {
		return fmt.Errorf("%s: %w: it is of another version", name, ErrCorrupt)
	}
	return nil
}

// compare makes sure that the directory holds what was sealed. Badger trusts what it finds: it
// would remove the tables that a damaged MANIFEST does not name.
func (s *seal) compare(dir string) error {
	files, err := files(dir)
	if err != nil {
		return err
	}
	broken := func(name, what string) error {
		return fmt.Errorf("%s: %w: %s", filepath.Join(dir, name), ErrCorrupt, what)
	}
	if len(files) != len(s.Files) {
		return broken("", "files are missing or foreign")
	}
	for i, name := range files {
		want := s.Files[i]
		is, err := describe(dir, name, want.From)
		switch {
		case errors.Is(err, fs.ErrNotExist) || name != want.Name:
			return broken(want.Name, "it is missing")
		case err != nil && !errors.Is(err, ErrCorrupt):
			return err
		case err != nil || is != want:
			return broken(name, "it is not what was written")
		}
	}
	return nil
}

// files are all but the seal, by name.
func files(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != sealName {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// describe looks at a file: at its size, and at what stands in it from an offset on.
func describe(dir, name string, from int64) (sealedFile, error) {
	is := sealedFile{Name: name, From: from}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return is, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return is, err
	}
	if is.Size = info.Size(); !info.Mode().IsRegular() {
		return is, fmt.Errorf("%s: %w: it is no file", name, ErrCorrupt)
	}
	if from < 0 || is.Size < from || is.Size-from > maxSeal {
		return is, fmt.Errorf("%s: %w: bytes %d to %d to compare", name, ErrCorrupt, from, is.Size)
	}
	b := make([]byte, is.Size-from)
	if _, err := f.ReadAt(b, from); err != nil {
		return is, err
	}
	is.Sum = Sum(b)
	return is, nil
}

// lastBlock is the offset of the last block of a table, which Badger has just written. Badger reads
// that block and the index behind it to open the table. It uses numbers in the block before it verifies
// the block's checksum. The blocks before it are verified when they are read, and the entries
// have their own checksums.
func lastBlock(name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	from, err := tableIndex(f, info.Size())
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	b := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(b, from); err != nil {
		return 0, err
	}
	var block fb.BlockOffset
	index := fb.GetRootAsTableIndex(b, 0)
	if n := index.OffsetsLength(); n == 0 || !index.Offsets(&block, n-1) {
		return 0, fmt.Errorf("%s: %w: a table without blocks", name, ErrCorrupt)
	}
	return int64(block.Offset()), nil
}

// tableIndex is the offset of the index in a table of Badger: before the end are the index, its length, its
// checksum, and the length of that, each in 4 bytes, high ones first.
func tableIndex(f *os.File, size int64) (int64, error) {
	end := size
	back := func() (uint32, error) {
		var b [4]byte
		if end -= 4; end < 0 {
			return 0, ErrCorrupt
		}
		_, err := f.ReadAt(b[:], end)
		return binary.BigEndian.Uint32(b[:]), err
	}
	sum, err := back()
	if err != nil {
		return 0, err
	}
	end -= int64(sum)
	length, err := back()
	if err != nil {
		return 0, err
	}
	if end -= int64(length); end < 0 {
		return 0, ErrCorrupt
	}
	return end, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is CRC32C.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// ErrSum is that a checksum is not that of the bytes.
var ErrSum = errors.New("checksum differs")

const prefix = "crc32c "

// Seal returns the content of a small file of pipefs: v as JSON, and a last line with its CRC32C. People can
// read it, and a flipped byte is noticed.
func Seal(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	return fmt.Appendf(b, "%s%08x\n", prefix, Sum(b)), nil
}

// Unseal reads into v what Seal returned.
func Unseal(b []byte, v any) error {
	at := strings.LastIndex(string(b), prefix)
	if at < 0 {
		return errors.New("no checksum at its end")
	}
	if string(b[at:]) != fmt.Sprintf("%s%08x\n", prefix, Sum(b[:at])) {
		return ErrSum
	}
	return json.Unmarshal(b[:at], v)
}
