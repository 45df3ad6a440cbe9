package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/store/vfs"
)

const (
	currentName     = "CURRENT"
	generationsName = "generations"
	tmpSuffix       = ".tmp"
	// plansReader is the version of the format that a reader of packs of plans has to know.
	plansReader = 3
	// keepGenerations is how many generations a directory keeps.
	keepGenerations = 2
)

// currentFile names the generation to use.
type currentFile struct {
	Generation string `json:"generation"`
	Sum        string `json:"sha256"` // of its file, hexadecimal
	Writer     packID `json:"writer"`
}

// generation says completely what a store holds: a small file that never changes.
type generation struct {
	// MinReader is the lowest version of the format that a reader has to know.
	MinReader int    `json:"min_reader"`
	Number    uint64 `json:"number"`
	Writer    packID `json:"writer"` // random, of the run that wrote it
	Stats     Stats  `json:"stats"`
	Entries   int64  `json:"entries"` // that are found
	// NextSeq is above every sequence number of an entry; 0 in generations of earlier versions.
	NextSeq int64 `json:"next_seq,omitempty"`
	// Packs that count, in order: later entries of a path replace earlier ones.
	Packs []SealedPack `json:"packs"`
	// Replaced are packs that are there and do not count: others hold what was of use of them.
	Replaced []replacedPack `json:"replaced,omitempty"`

	sum string // of its file, as CURRENT has it; "" while it is in no file
}

// Generation names what a store held at one time.
type Generation struct {
	Number uint64 `json:"number"` // from 1; later ones have higher numbers
	Name   string `json:"name"`   // of its file
	Sum    string `json:"sha256"` // of its file, hexadecimal
}

func (g *generation) id() Generation { return Generation{g.Number, g.fileName(), g.sum} }

// replacedPack names a pack.
type replacedPack struct {
	ID   packID `json:"id"`
	Age  uint64 `json:"age"`
	Plan packID `json:"plan,omitzero"`
}

func (r *replacedPack) name() packName { return packName{r.Age, r.ID, r.Plan} }

// counting takes the packs out of a list that a generation says are replaced. g may be nil.
func (g *generation) counting(names []packName) []packName {
	if g == nil {
		return names
	}
	gone := make(map[packName]bool, len(g.Replaced))
	for i := range g.Replaced {
		gone[g.Replaced[i].name()] = true
	}
	return slices.DeleteFunc(names, func(n packName) bool { return gone[n] })
}

// SealedPack is a pack of a store, and its segment, as a generation names them.
type SealedPack struct {
	packSeal
	Segment segmentSeal `json:"segment"`
	// Plan is the plan that the pack is a part of; zero: it lies in packs.
	Plan packID `json:"plan,omitzero"`
}

func (p *SealedPack) name() packName { return packName{p.Age, p.ID, p.Plan} }

// File is the path of the pack below its store.
func (p *SealedPack) File() string { return p.name().file() }

// SegmentFile is the path of its segment below its store.
func (p *SealedPack) SegmentFile() string { return p.name().segment() }

// segmentSeal distinguishes a segment from every other.
type segmentSeal struct {
	Size int64  `json:"size"` // bytes
	Sum  uint32 `json:"trailer_crc32c"`
}

func (g *generation) fileName() string { return fmt.Sprintf("%06d-%x", g.Number, g.Writer) }

// generationNumber is the number in what fileName returned.
func generationNumber(name string) (uint64, bool) {
	digits, writer, _ := strings.Cut(name, "-")
	g := generation{}
	n, err := strconv.ParseUint(digits, 10, 62)
	g.Number = n
	return n, err == nil && g.Writer.UnmarshalText([]byte(writer)) == nil && g.fileName() == name
}

// newestAge is the highest age of packs that count, or did.
func (g *generation) newestAge() (age uint64) {
	for i := range g.Packs {
		age = max(age, g.Packs[i].Age)
	}
	for i := range g.Replaced {
		age = max(age, g.Replaced[i].Age)
	}
	return age
}

// describePacks puts the packs into their order, and says in the statistics what they are.
func (g *generation) describePacks() {
	slices.SortFunc(g.Packs, func(a, b SealedPack) int { return a.name().compare(b.name()) })
	g.Stats.Packs, g.Stats.Records, g.Stats.PackBytes = len(g.Packs), 0, 0
	for i := range g.Packs {
		g.Stats.Records += g.Packs[i].Records
		g.Stats.PackBytes += g.Packs[i].Size
	}
}

// samePacks reports whether two generations have the same packs, and so the same entries.
func (g *generation) samePacks(h *generation) bool {
	return slices.EqualFunc(g.Packs, h.Packs, func(a, b SealedPack) bool { return a.name() == b.name() })
}

// packsKey names what is made from some packs in this order, and from nothing else.
func packsKey(packs []SealedPack) (key packID) {
	h := sha256.New()
	var b []byte
	for i := range packs {
		p := &packs[i]
		b = append(b[:0], p.ID[:]...)
		b = binary.LittleEndian.AppendUint64(b, p.Age)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Size))
		_, _ = h.Write(binary.LittleEndian.AppendUint32(b, p.FooterSum))
	}
	copy(key[:], h.Sum(nil))
	return key
}

func hexSum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// readGeneration reads the generation that CURRENT names. A writer may replace it, and
// remove the one before, at any moment: then the next one is tried.
func readGeneration(fsys vfs.FS, dir string) (*generation, error) {
	var last currentFile
	for tries := 0; ; tries++ {
		var c currentFile
		if _, err := readText(fsys, filepath.Join(dir, currentName), &c); err != nil {
			return nil, err
		}
		g, err := openGeneration(fsys, dir, c)
		// What is broken stays the same; what was replaced does not.
		if err == nil || tries > 0 && c == last || tries == 10 {
			return g, err
		}
		last = c
	}
}

func openGeneration(fsys vfs.FS, dir string, c currentFile) (*generation, error) {
	if _, ok := generationNumber(c.Generation); !ok {
		return nil, &CorruptError{Path: currentName, Cause: fmt.Errorf("names %q", c.Generation)}
	}
	name := filepath.Join(generationsName, c.Generation)
	// A newer version may mean other things by the rest of it.
	var head struct {
		MinReader int `json:"min_reader"`
	}
	g := &generation{}
	text, err := readText(fsys, filepath.Join(dir, name), &head)
	var bad *CorruptError
	switch {
	case errors.As(err, &bad):
		bad.Path = name
		return nil, err
	case err != nil:
		return nil, err
	case hexSum(text) != c.Sum:
		return nil, &CorruptError{Path: name, Cause: errors.New("not the one that CURRENT names")}
	case head.MinReader > plansReader:
		return nil, fmt.Errorf("a newer pipefs added to this store: reading it takes format %d, and this pipefs reads format %d: %w; use a newer pipefs",
			head.MinReader, plansReader, ErrVersion)
	}
	g.sum = c.Sum
	return g, DecodeText(name, text, g)
}

// write makes the generation durable and current. The caller holds the store's lock.
func (g *generation) write(fsys vfs.FS, dir string) error {
	_, _ = rand.Read(g.Writer[:])
	g.MinReader = formatVersion
	if slices.ContainsFunc(g.Packs, func(p SealedPack) bool { return p.Plan != packID{} }) {
		g.MinReader = plansReader
	}
	text, err := sorted.Seal(g)
	if err != nil {
		return err
	}
	generations := filepath.Join(dir, generationsName)
	if err := fsys.MkdirAll(generations); err != nil {
		return err
	}
	if err := replaceFile(fsys, filepath.Join(generations, g.fileName()), text); err != nil {
		return err
	}
	// The directories of generations and segments may be new.
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	text, err = sorted.Seal(currentFile{Generation: g.fileName(), Sum: hexSum(text), Writer: g.Writer})
	if err != nil {
		return err
	}
	return replaceFile(fsys, filepath.Join(dir, currentName), text)
}
