package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

// TestIndexVersion: an index of another version is refused until the store is packed
// again.
func TestIndexVersion(t *testing.T) {
	dir, src := small(t)
	var c currentFile
	if _, err := readText(vfs.OS, filepath.Join(dir, currentName), &c); err != nil {
		t.Fatal(err)
	}
	var seal sealFile
	name := filepath.Join(dir, c.Index, sealName)
	if _, err := readText(vfs.OS, name, &seal); err != nil || seal.Stats.WithoutOriginal == nil {
		t.Fatalf("%+v, %v", seal.Stats, err)
	}
	seal.Version = indexVersion - 1
	text, sum, err := encodeText(seal)
	if err == nil {
		err = replaceFile(vfs.OS, name, text)
	}
	if err == nil {
		text, _, err = encodeText(currentFile{Index: c.Index, Seal: hexSum(sum)})
	}
	if err == nil {
		err = replaceFile(vfs.OS, filepath.Join(dir, currentName), text)
	}
	testenv.Must(t, err)
	if _, err := Open(dir, Options{Logger: quiet}); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "pack again") {
		t.Errorf("opened: %v", err)
	}
	mustPack(t, dir, src, PackOptions{})
	checkStore(t, dir, src)
}
