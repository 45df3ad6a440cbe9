package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

// tinyPack is a pack made from fixed input; the documentation shows it.
func tinyPack(t testing.TB) []byte {
	t.Helper()
	src := newSource()
	src.files[""] = memFile{kind: Dir, id: ident(1, 0, 0)}
	src.put("a.jpg", []byte("0123456789"))
	dir := filepath.Join(t.TempDir(), "store")
	mustPack(t, dir, src, PackOptions{})
	b, err := os.ReadFile(firstPack(t, dir))
	testenv.Must(t, err)
	return b
}

// firstPack is the file of a store's oldest pack.
func firstPack(t testing.TB, dir string) string {
	t.Helper()
	sealed, _, err := listPacks(vfs.OS, filepath.Join(dir, packsName))
	if err != nil || len(sealed) == 0 {
		t.Fatal(sealed, err)
	}
	return filepath.Join(dir, packsName, sealed[0].String())
}

// tinyRef is the pack of tinyPack.
func tinyRef(pack []byte) packRef {
	return packRef{packName{age: 1, id: packID(pack[len(pack)-trailerSize+24:])}, 1}
}

// An entry that decodes encodes to one that decodes to the same.
func FuzzEntry(f *testing.F) {
	at := place{pack: 3, base: 1000, size: 1 << 40}
	pack := tinyPack(f)
	for rec, err := range scan(bytes.NewReader(pack), tinyRef(pack), int64(len(pack)), true) {
		if err == nil {
			_ = eachEntry(rec.meta, func(raw []byte) error { f.Add(bytes.Clone(raw)); return nil })
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := decodeEntry(raw, at)
		if err != nil {
			return
		}
		relative := s
		relative.Representations = nil
		for _, r := range s.Representations {
			parts := append([]Part(nil), r.Parts...)
			for i := range parts {
				parts[i].Off -= at.base
			}
			r.Parts = parts
			relative.Representations = append(relative.Representations, r)
		}
		again, err := decodeEntry(appendEntry(nil, &relative), at)
		testenv.Must(t, err)
		if diff := cmp.Diff(s, again, cmpopts.EquateEmpty(), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Records of a pack that is nothing but noise neither panic nor allocate more
// than the pack is long; what holds has data that can be read.
func FuzzRecord(f *testing.F) {
	pack := tinyPack(f)
	f.Add(pack)
	f.Add(pack[:len(pack)-1])
	f.Add(pack[:headerSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		// Checksums that fit let more of the input through.
		if len(b) > headerSize+frameSize {
			b = bytes.Clone(b)
			fixSums(b)
		}
		for rec, err := range scan(bytes.NewReader(b), byAge(packName{age: 1}), int64(len(b)), true) {
			if err == nil && rec.end > int64(len(b)) {
				t.Fatal("a record beyond the end")
			}
		}
	})
}

// fixSums puts right the checksums of the header and of the first record.
func fixSums(b []byte) {
	put := func(at int, v uint32) { copy(b[at:], []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}) }
	copy(b, appendPackHeader(nil, 1))
	fr := b[headerSize:]
	meta := min(int(uint32(fr[4])|uint32(fr[5])<<8), len(fr)-frameSize)
	put(headerSize+16, sum(fr[frameSize:frameSize+meta]))
	copy(fr, recordMagic)
	put(headerSize+20, sum(fr[:20]))
}

func FuzzFooter(f *testing.F) {
	pack := tinyPack(f)
	seal, _, err := readFooter(memFileOf(pack), tinyRef(pack))
	testenv.Must(f, err)
	f.Add(pack[seal.footerOff:seal.footerOff+seal.footerLen], seal.footerOff, seal.Records)
	f.Fuzz(func(t *testing.T, footer []byte, off, n int64) {
		records, err := parseFooter(footer, packSeal{Age: 1, footerOff: off, Records: n}, 1)
		if err != nil {
			return
		}
		for _, r := range records {
			if r.off < 0 || r.at.base+r.at.size > off {
				t.Fatal("a record beyond the footer")
			}
			_, _ = decodeRecord(r.meta, r.at)
		}
	})
}

// A trailer whose checksum holds is refused where what it says of the footer cannot be.
func TestTrailers(t *testing.T) {
	pack := tinyPack(t)
	ref := tinyRef(pack)
	good, _, err := readFooter(memFileOf(pack), ref)
	testenv.Must(t, err)
	whole, short := pack[:len(pack)-trailerSize], pack[:headerSize+1]
	for i, c := range []struct {
		before               []byte // the trailer
		off, length, records int64
		holds                bool
	}{
		{whole, good.footerOff, good.footerLen, good.Records, true},
		{whole, good.footerOff, good.footerLen, good.footerLen, true},
		{whole, good.footerOff, good.footerLen, good.footerLen + 1, false},
		{whole, good.footerOff, good.footerLen - 1, good.Records, false},
		{whole, good.footerOff, good.footerLen + 1, good.Records, false},
		{short, headerSize, 1, 1, true},
		{short, headerSize - 1, 2, 1, false},
		{short, headerSize + 1, 0, 0, true},
		{short, -1, headerSize + 2, 1, false},
	} {
		s := packSeal{ID: ref.id, footerOff: c.off, footerLen: c.length, Records: c.records}
		got, err := readSeal(memFileOf(appendTrailer(slices.Clip(c.before), s)), ref.packName)
		if c.holds != (err == nil) || err == nil && got.Records != c.records || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
}

// FuzzPack has whole files of any kind opened as a sealed pack.
func FuzzPack(f *testing.F) {
	ref := tinyRef(tinyPack(f))
	f.Add(tinyPack(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, records, err := readFooter(memFileOf(b), ref)
		if err != nil {
			return
		}
		for _, r := range records {
			_, _ = decodeRecord(r.meta, r.at)
		}
	})
}

func memFileOf(b []byte) vfs.File { return &memFileRW{b} }
