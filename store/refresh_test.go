package store

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

// originalOf reads the original of a sample.
func originalOf(t *testing.T, s *Store, e Sample) string {
	t.Helper()
	rep := e.Representation("original")
	if rep == nil {
		t.Fatalf("%s has no original", e.Path)
	}
	r, err := s.Reader(*rep, 0)
	testenv.Must(t, err)
	b := make([]byte, r.Size())
	if _, err = r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return string(b)
}

func nothing(Change) {}

// An open store shows another generation after Refresh; the one before is found for whoever still
// reads it, and the ones before that are let go.
func TestRefresh(t *testing.T) {
	t.Parallel()
	dir, src := tempDir(t), newSource()
	src.put("a/1.txt", []byte("first"))
	src.put("a/2.txt", []byte("second"))
	src.put("b/3.txt", []byte("third"))
	mustPack(t, dir, src, PackOptions{})
	s := mustOpen(t, dir)
	ch, err := s.Refresh(t.Context(), func(Change) { t.Error("nothing is taken") })
	testenv.Must(t, err)
	if ch.Before != ch.Now || ch.Now.Number != 1 {
		t.Errorf("nothing is newer: %+v", ch)
	}
	old, err := s.Lookup("a/1.txt")
	testenv.Must(t, err)
	went, err := s.Lookup("b/3.txt")
	testenv.Must(t, err)
	r, err := s.Reader(*old.Representation("original"), 0)
	testenv.Must(t, err)

	src.put("a/1.txt", []byte("another"))
	src.put("c/4.txt", []byte("fourth"))
	src.remove("b/3.txt")
	mustPack(t, dir, src, PackOptions{})
	taken := 0
	ch, err = s.Refresh(t.Context(), func(Change) { taken++ })
	testenv.Must(t, err)
	if want := (Change{Before: ch.Before, Now: ch.Now, Came: 1, Changed: 1, Went: 1}); ch != want || ch.Now.Number != 2 || taken != 1 {
		t.Errorf("%+v, want %+v; taken %d times", ch, want, taken)
	}
	if _, err := compareStore(s, src); err != nil {
		t.Error(err)
	}
	if b := make([]byte, 5); readFull(r, b, 0) != nil || string(b) != "first" {
		t.Errorf("a reader from before reads %q", b)
	}
	again, err := s.LookupAs("a/1.txt", old.Source)
	if err != nil || originalOf(t, s, again) != "first" {
		t.Errorf("the version before: %v", err)
	}
	if again, err = s.LookupAs("b/3.txt", went.Source); err != nil || originalOf(t, s, again) != "third" {
		t.Errorf("a file that went: %v", err)
	}
	if s.Replaced("a/2.txt") || s.Replaced("a/1.txt") {
		t.Error("a file is taken for one that was packed again")
	}

	// The generation before is the only one that is kept.
	src.put("d/5.txt", []byte("fifth"))
	mustPack(t, dir, src, PackOptions{})
	_, err = s.Refresh(t.Context(), nothing)
	testenv.Must(t, err)
	if _, err := s.LookupAs("a/1.txt", old.Source); !errors.Is(err, ErrNotFound) {
		t.Errorf("a version of two generations ago: %v", err)
	}
	if _, err := compareStore(s, src); err != nil {
		t.Error(err)
	}

	// A file becomes a directory, and the other way round; one has another mode; the last ones go.
	src.remove("a/2.txt")
	src.put("a/2.txt/in it.txt", []byte("in it"))
	src.remove("c")
	src.put("c", []byte("a file"))
	src.put("b/6.jpg", []byte("sixth"))
	src.remove("d")
	moded := src.files["a/1.txt"]
	moded.mode = 0o200
	src.files["a/1.txt"] = moded
	mustPack(t, dir, src, PackOptions{})
	ch, err = s.Refresh(t.Context(), nothing)
	if want := (Change{Before: ch.Before, Now: ch.Now, Came: 3, Changed: 1, Went: 3}); err != nil || ch != want {
		t.Errorf("%+v, want %+v, %v", ch, want, err)
	}
	// What is packed in other ways is no other file.
	_, err = Pack(t.Context(), dir, src, fakeEncoder{id: "2"}, PackOptions{Logger: quiet})
	testenv.Must(t, err)
	ch, err = s.Refresh(t.Context(), nothing)
	if want := (Change{Before: ch.Before, Now: ch.Now}); err != nil || ch != want {
		t.Errorf("%+v, want %+v, %v", ch, want, err)
	}
	for path, want := range map[string]bool{"b/6.jpg": true, "a/1.txt": false, "b": false, "d/5.txt": false} {
		if s.Replaced(path) != want {
			t.Errorf("%s is packed again: %v", path, !want)
		}
	}
}

// Packs of which no generation is shown any more are let go, and those that take their place have
// other numbers: nobody reads one for the other.
func TestRefreshOtherPacks(t *testing.T) {
	t.Parallel()
	dir, src := tempDir(t), newSource()
	src.put("a.txt", []byte("first"))
	mustPack(t, dir, src, PackOptions{})
	s := mustOpen(t, dir)
	old, err := s.Lookup("a.txt")
	testenv.Must(t, err)
	originalOf(t, s, old)
	for _, content := range []string{"2nd of it", "the third"} {
		other := tempDir(t)
		src.put("a.txt", []byte(content))
		mustPack(t, other, src, PackOptions{})
		// What a compaction leaves: other packs, and a generation that names only these.
		for _, name := range []string{packsName, segmentsName, generationsName} {
			testenv.Must(t, os.RemoveAll(filepath.Join(dir, name)))
			testenv.Must(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(other, name))))
		}
		current, err := os.ReadFile(filepath.Join(other, currentName))
		testenv.Must(t, err)
		write(t, filepath.Join(dir, currentName), current)
		ch, err := s.Refresh(t.Context(), nothing)
		testenv.Must(t, err)
		if ch.Changed != 1 || ch.Left != 1 {
			t.Errorf("%+v", ch)
		}
		now, err := s.Lookup("a.txt")
		testenv.Must(t, err)
		if got := originalOf(t, s, now); got != content {
			t.Errorf("%q instead of %q", got, content)
		}
	}
	if _, err := s.Reader(*old.Representation("original"), 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("a pack of two generations ago: %v", err)
	}
	if n, names, open := len(s.pool.packs), len(s.pool.names), len(s.pool.open); n != 2 || names != 2 || open != 1 {
		t.Errorf("%d packs are known, %d by name, and %d are open", n, names, open)
	}
}

// What is wrong with the newer generation is an error, and the store shows what it showed.
func TestRefreshFails(t *testing.T) {
	t.Parallel()
	dir, src := tempDir(t), newSource()
	src.put("a.txt", []byte("first"))
	mustPack(t, dir, src, PackOptions{})
	s := mustOpen(t, dir)
	before := newSource()
	before.files = maps.Clone(src.files)
	src.put("b.txt", []byte("second"))
	mustPack(t, dir, src, PackOptions{})
	now, err := readGeneration(s.o.FS, dir)
	testenv.Must(t, err)
	last := now.Packs[len(now.Packs)-1].name().String()
	for _, name := range []string{currentName, filepath.Join(generationsName, now.fileName()), filepath.Join(packsName, last)} {
		name = filepath.Join(dir, name)
		whole, err := os.ReadFile(name)
		testenv.Must(t, err)
		for what, damage := range map[string]func() error{
			"missing": func() error { return os.Remove(name) },
			"cut":     func() error { return os.WriteFile(name, whole[:len(whole)/2], 0o644) },
		} {
			testenv.Must(t, damage())
			ch, err := s.Refresh(t.Context(), func(Change) { t.Error("it is taken") })
			if err == nil {
				t.Errorf("%s is %s: %+v", name, what, ch)
			}
			if _, err := compareStore(s, before); err != nil {
				t.Errorf("%s is %s: %v", name, what, err)
			}
			write(t, name, whole)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, what := range []string{"compared", "made"} {
		if _, err := s.Refresh(ctx, nothing); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before the index is %s: %v", what, err)
		}
		testenv.Must(t, os.RemoveAll(filepath.Join(dir, indexName)))
	}
	s.buildAgain = time.Now().Add(time.Minute)
	if _, err := s.Refresh(t.Context(), nothing); err == nil || !strings.Contains(err.Error(), "once a minute") {
		t.Errorf("right after a long build: %v", err)
	}
	s.buildAgain = time.Now()
	_, err = s.Refresh(t.Context(), nothing)
	testenv.Must(t, err)
	if _, err := compareStore(s, src); err != nil {
		t.Error(err)
	}
}

// A generation that is not the current one can be opened by its name, as long as it is there.
func TestOpenGeneration(t *testing.T) {
	t.Parallel()
	dir, src := tempDir(t), newSource()
	src.put("a.txt", []byte("first"))
	mustPack(t, dir, src, PackOptions{})
	s := mustOpen(t, dir)
	g := s.Shown()
	was, err := s.Lookup("a.txt")
	testenv.Must(t, err)
	src.put("a.txt", []byte("other"))
	mustPack(t, dir, src, PackOptions{})
	old, err := Open(dir, Options{Generation: g, Logger: quiet})
	testenv.Must(t, err)
	defer old.Close()
	if e, err := old.Lookup("a.txt"); err != nil || e.Source != was.Source || originalOf(t, old, e) != "first" {
		t.Errorf("%+v, %v", e, err)
	}
	testenv.Must(t, os.Remove(filepath.Join(dir, generationsName, g.Name)))
	if _, err := Open(dir, Options{Generation: g, Logger: quiet}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a generation that was removed: %v", err)
	}
}
