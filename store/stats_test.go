package store

import (
	"errors"
	"fmt"
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
