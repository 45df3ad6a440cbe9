package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/store/vfs"
)

// packID tells a pack from all others, whoever made them. It is zero while the pack grows.
// It follows from what the pack holds, so that the same content has the same name wherever
// it was made, and two writers never give one name to different content.
type packID [16]byte

// ID is that of a pack or of a plan. Its text is hexadecimal.
type ID = packID

func makePackID(age uint64, footer []byte) (id packID) {
	h := sha256.New()
	_, _ = h.Write(binary.LittleEndian.AppendUint64([]byte(packMagic), age))
	_, _ = h.Write(footer)
	copy(id[:], h.Sum(nil))
	return id
}

// MarshalText implements [encoding.TextMarshaler].
func (id packID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *packID) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(string(b))
	if err != nil || len(raw) != len(id) {
		return fmt.Errorf("%q is no id of a pack", b)
	}
	copy(id[:], raw)
	return nil
}

// packName names a pack. Entries of a pack with a higher age replace those of others; of two
// packs with the same age, those of the higher id.
type packName struct {
	age uint64
	id  packID
	// plan is the plan that the pack is a part of, and lies with; zero: it lies in packs.
	plan packID
}

const (
	packSuffix = ".pack"
	partSuffix = ".part" // behind it, of a pack that is not finished
	maxAge     = 1 << 62
)

// String is the name of the file.
func (n packName) String() string {
	if n.id == (packID{}) {
		return fmt.Sprintf("%06d%s%s", n.age, packSuffix, partSuffix)
	}
	return n.base() + packSuffix
}

// file is the path of the pack below its store.
func (n packName) file() string { return filepath.Join(n.room(), packsName, n.String()) }

// segment is the path of its segment below its store.
func (n packName) segment() string {
	return filepath.Join(n.room(), segmentsName, n.base()+segmentSuffix)
}

// room is the directory below the store in which those of packs and of segments are.
func (n packName) room() string {
	if n.plan == (packID{}) {
		return ""
	}
	return filepath.Join(plansName, fmt.Sprintf("%x", n.plan))
}

// base is the file's name without its suffix.
func (n packName) base() string { return fmt.Sprintf("%06d-%x", n.age, n.id) }

func (n packName) compare(m packName) int {
	return cmp.Or(cmp.Compare(n.age, m.age), slices.Compare(n.id[:], m.id[:]))
}

// parsePackName reads what String returned.
func parsePackName(name string) (n packName, ok bool) {
	base, part := strings.CutSuffix(name, packSuffix+partSuffix)
	if !part {
		base = strings.TrimSuffix(name, packSuffix)
	}
	age, id, sealed := strings.Cut(base, "-")
	var err error
	if n.age, err = strconv.ParseUint(age, 10, 62); err != nil || n.age == 0 {
		return n, false
	}
	if sealed && n.id.UnmarshalText([]byte(id)) != nil {
		return n, false
	}
	return n, n.String() == name
}

// packRef is a pack as those who have its directory open know it: by its name and by a
// small number. That of a store's pack is its place in the generation, that of a pack of
// results is its age.
type packRef struct {
	packName
	number uint32
}

// byAge is the reference to a pack of results.
func byAge(n packName) packRef { return packRef{n, uint32(n.age)} }

// listPacks returns the packs in a directory, sealed ones and unfinished ones, the oldest
// first. Other names are not ours and are ignored.
func listPacks(fs vfs.FS, dir string) (sealed, unfinished []packName, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		switch n, ok := parsePackName(name); {
		case !ok:
		case n.id == packID{}:
			unfinished = append(unfinished, n)
		default:
			sealed = append(sealed, n)
		}
	}
	slices.SortFunc(sealed, packName.compare)
	slices.SortFunc(unfinished, packName.compare)
	return sealed, unfinished, nil
}
