package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

// advised is a pack of which it is noted what was fetched.
type advised struct{ bytes []bool }

func (a *advised) Scattered() {}

func (a *advised) Ahead() (window, piece int64) { return 512 << 10, 128 << 10 }

func (a *advised) Fetch(off, n int64) {
	for i := off; i < min(off+n, int64(len(a.bytes))); i++ {
		a.bytes[i] = true
	}
}

func (a *advised) count() (n int) {
	for _, b := range a.bytes {
		if b {
			n++
		}
	}
	return n
}

// laidOut lays out the parts of some samples, scan group by scan group, at an offset.
func laidOut(off int64, samples int, sizes ...int64) (parts [][]Part, end int64) {
	parts = make([][]Part, samples)
	for _, size := range sizes {
		for i := range parts {
			parts[i] = append(parts[i], Part{Off: off, Len: size})
			off += size
		}
	}
	return parts, off
}

// TestStreams: samples in their order have all that is wanted fetched before it is
// read, and next to nothing else; samples in any order have nothing fetched.
func TestStreams(t *testing.T) {
	const records, samples = 6, 128
	sizes := []int64{1500, 2500, 400, 9000}
	var all [][]Part
	end := int64(64)
	for range records {
		var parts [][]Part
		parts, end = laidOut(end, samples, sizes...)
		all = append(all, parts...)
	}
	for level := 1; level <= len(sizes); level++ {
		var s streams
		pack := &advised{make([]bool, end)}
		late, wanted := 0, 0
		for _, parts := range all {
			limit := int64(0)
			if level < len(parts) {
				limit = parts[level].Off
			}
			s.fetch(pack, parts[:level], limit)
			for _, p := range parts[:level] {
				wanted += int(p.Len)
				for i := p.Off; i < p.Off+p.Len; i++ {
					if !pack.bytes[i] {
						late++
					}
				}
			}
		}
		// The first sample tells nothing yet.
		if most := wanted / (records * samples) * 2; late > most {
			t.Errorf("level %d: %d of %d bytes were read before they were fetched, want no more than %d", level, late, wanted, most)
		}
		if n := pack.count(); float64(n) > 1.05*float64(wanted) {
			t.Errorf("level %d: %d bytes were fetched where %d are wanted", level, n, wanted)
		}
	}
	var s streams
	pack := &advised{make([]bool, end)}
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		parts := all[random.IntN(records/2)*2*samples]
		s.fetch(pack, parts[:2], parts[2].Off)
	}
	if n := pack.count(); n > 0 {
		t.Errorf("%d bytes were fetched for samples that are far apart", n)
	}
}

// advising is a file system of which each pack takes advice.
type advising struct {
	vfs.FS
	*advised
}

func (f advising) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	return struct {
		vfs.File
		*advised
	}{file, f.advised}, err
}

// Samples that are read in order are read ahead where records hold several.
func TestReadsAhead(t *testing.T) {
	for images, want := range map[int]bool{1: false, 2: true} {
		dir, src := tempDir(t), newSource()
		for i := range 20 {
			src.put(fmt.Sprint("file", i), noise(random(t), 100))
		}
		mustPack(t, dir, src, PackOptions{RecordImages: images})
		pack := &advised{make([]bool, 1<<20)}
		s, err := Open(dir, Options{FS: advising{vfs.OS, pack}, Logger: quiet})
		testenv.Must(t, err)
		defer s.Close()
		list, err := s.List("")
		testenv.Must(t, err)
		for _, c := range list {
			e, err := s.Lookup(c.Name)
			testenv.Must(t, err)
			originalOf(t, s, e)
		}
		if got := slices.Contains(pack.bytes, true); got != want {
			t.Errorf("%d samples a record: read ahead: %v", images, got)
		}
	}
}
