package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// Order is the order in which samples are packed.
type Order string

// The orders.
const (
	OrderPath    Order = "path"    // as the source walks
	OrderShuffle Order = "shuffle" // by a hash of seed and path
)

// SourceFile describes one name of the dataset.
type SourceFile struct {
	Path     string // relative, with slashes; "" is the dataset itself
	Kind     Kind   // File or Dir
	Mode     uint32 // permission bits
	Identity Identity
	// Verbatim: the file is stored as it is, whatever it holds. A long one is
	// copied, and is never in memory as a whole.
	Verbatim bool
}

// Source is the dataset.
type Source interface {
	// Walk yields every file and directory, a directory before what is in it, in
	// the same order every time. An error that comes with a path is about that
	// path alone: it is reported, and what the store holds of it and below it
	// stays. An error with an empty path ends the packing.
	Walk(ctx context.Context) iter.Seq2[SourceFile, error]
	// Read returns the bytes of a file and its identity as it was after the last
	// byte was read (fstat of the open file). It is called concurrently. Pack
	// compares the identity with the walk's and reads again where they differ.
	Read(ctx context.Context, path string) ([]byte, Identity, error)
	// Copy writes the bytes of a file to w, piece by piece, and returns its identity
	// as Read does.
	Copy(ctx context.Context, path string, w io.Writer) (Identity, error)
}

// Encoder makes the representations of a file. It is called concurrently.
type Encoder interface {
	// Encode makes what is to be stored of a file. A file that no codec
	// understands is no error: it has a Fault. An error is reported, and the file
	// is left out.
	Encode(ctx context.Context, path string, data []byte) (Encoded, error)
	// Current reports whether s, stored earlier from the same version of the
	// file, still holds what Encode would make of it, so that it can be skipped
	// without being read. It must not keep s.
	Current(s *Sample) bool
}

// Encoded is what an Encoder makes of a file.
type Encoded struct {
	Info            transcode.Info
	Fault           string
	Representations []EncodedRepresentation
}

// EncodedRepresentation is a representation that is about to be stored. A Split
// without Ends is a single part.
type EncodedRepresentation struct {
	Key   string
	Split transcode.Split
}

// PackOptions says how to pack. The zero value is a good choice.
type PackOptions struct {
	// RecordImages is K, the number of samples a record; 0 means what the store
	// was packed with before, 1 for a new one.
	RecordImages int
	// RecordBytes ends a record early that would need more memory than this;
	// 0 means 256 MiB. A verbatim file of a quarter of it or more has a record of
	// its own.
	RecordBytes int64
	// Order of packing; "" means the order and the seed that the store was packed
	// with before, OrderPath for a new one.
	Order Order
	Seed  uint64
	// Workers is how many files are encoded at once; 0 means one a core.
	Workers int
	// MemoryBytes bounds the files that are being encoded; 0 means 512 MiB.
	MemoryBytes int64
	// PackBytes is the size at which a pack is sealed; 0 means 256 MiB.
	PackBytes int64
	// DatasetPath is kept in the store, for messages.
	DatasetPath string
	// IndexDir is where the index is kept; see [Options.IndexDir].
	IndexDir string
	// Progress is called after every record, from one goroutine at a time.
	Progress func(Progress)
	// Warn is called for each file that is left out, from one goroutine at a time.
	Warn   func(path string, err error)
	FS     vfs.FS       // nil means vfs.OS
	Logger *slog.Logger // nil means slog.Default
}

// Progress is how far a packing has come.
type Progress struct {
	Files   int64 // packed so far
	Skipped int64 // unchanged files, not read
	Failed  int64 // left out
	Bytes   int64 // written to packs
}

// Report is what a packing did.
type Report struct {
	Progress
	Dirs     int64 // directories written
	Removed  int64 // entries whose file is gone
	Faults   int64 // of Files: no codec could read them
	Source   int64 // bytes of the files packed
	Packs    int   // sealed by this run
	Salvaged int64 // records taken over from an interrupted run
}

// Pack brings the store in dir, made if need be, up to date with a dataset. It
// takes over what an interrupted run left, skips files that are stored as they
// are, and marks as removed what is gone. The same dataset and options make the
// same packs, byte for byte, whatever the number of workers and however often
// it was interrupted.
//
// ErrLocked says that another process writes. After any other error too, a
// canceled context and a full disk included, what was packed so far stays valid
// and the next run goes on from there.
func Pack(ctx context.Context, dir string, src Source, enc Encoder, o PackOptions) (Report, error) {
	p := &packer{dir: dir, src: src, enc: enc, o: o}
	return p.pack(ctx)
}

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
func (n packName) file() string { return filepath.Join(n.dir(), packsName, n.String()) }

// segment is the path of its segment below its store.
func (n packName) segment() string {
	return filepath.Join(n.dir(), segmentsName, n.base()+segmentSuffix)
}

// dir is the directory below the store in which those of packs and of segments are.
func (n packName) dir() string {
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
