package store

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// TestKinds counts samples without original by what they have in common.
func TestKinds(t *testing.T) {
	rep := func(keys ...string) (reps []Representation) {
		for _, k := range keys {
			reps = append(reps, Representation{Key: k})
		}
		return reps
	}
	photo := transcode.Info{Format: transcode.PNG, Mode: transcode.ModeRGB, Width: 10, Height: 20}
	other, turned, wide := photo, photo, photo
	other.Width, turned.Orientation, wide.Width = 11, 3, 1<<17
	st := Stats{WithoutOriginal: []Alike{}}
	c := kindCounter{at: map[string]int{}}
	for i, s := range []Sample{
		{Info: photo, Representations: rep("l3")},
		{Info: other, Representations: rep("l3")},
		{Info: turned, Representations: rep("l3")},
		{Info: photo, Representations: rep("l3", transcode.Original)},
		{Info: wide, Representations: rep("l3")}, // a JPEG cannot hold it
		{Info: photo, Representations: rep("l3", "undo")},
		{Representations: rep(transcode.Original)}, // not a picture
	} {
		s.Path = fmt.Sprint(i)
		c.count(&st, &s)
	}
	if want := []Alike{{"0", 3}, {"4", 1}, {"5", 1}}; !slices.Equal(st.WithoutOriginal, want) || st.Pictures != 6 {
		t.Errorf("%+v", st)
	}
	for i := range 2 * maxKinds {
		c.count(&st, &Sample{Path: "x", Info: photo, Representations: rep(fmt.Sprint(i))})
	}
	if n := len(st.WithoutOriginal); n != maxKinds || st.WithoutOriginal[n-1].Samples != 1+maxKinds+3 {
		t.Errorf("%d kinds, %+v", n, st.WithoutOriginal[n-1])
	}
}

// TestReplace: what is counted after an entry took the place of another is what is counted of all anew. Only what
// that cannot tell takes a recount: an example, or the last entry with a key, is gone.
func TestReplace(t *testing.T) {
	entry := func(path string, info transcode.Info, keys ...string) *Sample {
		s := &Sample{Path: path, Kind: File, Info: info}
		for _, key := range keys {
			s.Representations = append(s.Representations, Representation{Key: key, Parts: []Part{{Len: 1}}})
		}
		return s
	}
	jpeg, png := transcode.Info{Format: transcode.JPEG}, transcode.Info{Format: transcode.PNG}
	fault := entry("b", transcode.Info{}, transcode.Original)
	fault.Fault = "no codec"
	is := []*Sample{nil, {Path: "b", Kind: Dir}, {Path: "b", Kind: Tombstone}, fault, entry("b", jpeg, "l3"), entry("b", png, "l3"),
		entry("b", png, "l3", "more"), entry("b", jpeg, "l3", transcode.Original)}
	others := []*Sample{nil, entry("a", jpeg, "l3"), entry("c", jpeg, "l3"), entry("a", png, "l3", "more"), entry("c", png, "l3", "more"), entry("c", jpeg, transcode.Original)}
	kindsOf := func(st *Stats) (n []int64) {
		for _, a := range st.WithoutOriginal {
			n = append(n, a.Samples)
		}
		slices.Sort(n)
		return n
	}
	count := func(entries ...*Sample) (*Stats, *kindCounter) {
		st, kinds := noStats(), &kindCounter{at: map[string]int{}}
		for _, s := range entries {
			if s != nil && s.Kind != Tombstone {
				st.add(s, kinds)
			}
		}
		return st, kinds
	}
	for i, was := range is {
		if was != nil && was.Kind == Tombstone {
			continue
		}
		for j, now := range is[1:] {
			for k, other := range others {
				before := []*Sample{other, was}
				if other != nil && other.Path > "b" {
					before = []*Sample{was, other}
				}
				st, kinds := count(before...)
				anew, _ := count(now, other)
				changed := was == nil || !slices.Equal(slices.Clone(kinds.of(was)), kinds.of(now))
				recount := changed && slices.ContainsFunc(st.WithoutOriginal, func(a Alike) bool { return a.Example == "b" })
				for key := range st.Bytes {
					recount = recount || anew.Bytes[key] == 0
				}
				if done := st.replace(was, now, kinds); done == recount {
					t.Errorf("%d, %d, %d: counted %v, a recount is needed: %v", i, j, k, done, recount)
				} else if done && (st.Samples != anew.Samples || st.Dirs != anew.Dirs || st.Faults != anew.Faults || st.Pictures != anew.Pictures ||
					!maps.Equal(st.Bytes, anew.Bytes) || !slices.Equal(kindsOf(st), kindsOf(anew))) {
					t.Errorf("%d, %d, %d: %+v, counted anew %+v", i, j, k, st, anew)
				}
			}
		}
	}
}

// TestMinReader: a generation that takes a newer reader is refused, and so is adding to it.
func TestMinReader(t *testing.T) {
	dir, src := small(t)
	g, err := readGeneration(vfs.OS, dir)
	testenv.Must(t, err)
	for _, newer := range []bool{false, true} {
		// A newer writer may know fields, and types of fields, that this reader does not.
		text, err := sorted.Seal(struct {
			generation
			MinReader int   `json:"min_reader"`
			Stats     any   `json:"stats"`
			More      []int `json:"more"`
		}{*g, map[bool]int{false: formatVersion, true: plansReader + 1}[newer], map[bool]any{false: g.Stats, true: "elsewhere"}[newer], []int{1}})
		testenv.Must(t, err)
		testenv.Must(t, replaceFile(vfs.OS, filepath.Join(dir, generationsName, g.fileName()), text))
		current, err := sorted.Seal(currentFile{Generation: g.fileName(), Sum: hexSum(text), Writer: g.Writer})
		testenv.Must(t, err)
		testenv.Must(t, replaceFile(vfs.OS, filepath.Join(dir, currentName), current))
		if !newer {
			checkStore(t, dir, src)
			continue
		}
		_, opened := Open(dir, Options{Logger: quiet})
		_, packed := Pack(t.Context(), dir, src, fakeEncoder{id: "1"}, PackOptions{Logger: quiet})
		for _, err := range []error{opened, packed} {
			if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "use a newer pipefs") {
				t.Errorf("%v", err)
			}
		}
	}
}
