package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

const there = "file:///somewhere/in.store"

// place makes a place of files, in the order of names.
func place(t *testing.T, files map[string][]byte) (dir string, o blob.Objects) {
	t.Helper()
	dir = t.TempDir()
	for name, data := range files {
		put(t, dir, name, data)
	}
	o, err := blob.OpenDirectory(dir)
	testenv.Must(t, err)
	return dir, o
}

// put replaces a file by another one.
func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testenv.Must(t, os.WriteFile(path+"~", data, 0o644))
	testenv.Must(t, os.Rename(path+"~", path))
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = r.Read(b)
	return b
}

// read opens a file by the name that package store makes of it, and reads it.
func read(f *FS, name string) ([]byte, error) {
	file, err := f.Open(filepath.Join(there, name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := file.ReadAt(b, 0)
	return b[:n], err
}

func TestReads(t *testing.T) {
	files := map[string][]byte{
		"FORMAT": []byte("format"), "CURRENT": []byte("current"), "index.1/TABLE": noise(3 * fetchBytes / 2), "packs/000001.pack": noise(100_000),
		"packs/000002.pack": noise(windowBytes * 9 / 2), "fractions/bmp/000001.pack": noise(10),
	}
	_, o := place(t, files)
	for _, c := range []struct {
		name string
		o    Options
	}{{"nothing kept", Options{}}, {"cached", Options{Cache: cache(t)}}, {"whole", Options{Whole: true}}} {
		t.Run(c.name, func(t *testing.T) {
			f := New(t.Context(), there, o, c.o)
			defer f.Close()
			for range 2 {
				for name, want := range files {
					if got, err := read(f, name); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s: %d bytes, %v", name, len(got), err)
					}
				}
			}
			file, err := f.Open(there + "/packs/000002.pack")
			testenv.Must(t, err)
			defer file.Close()
			want := files["packs/000002.pack"]
			b := make([]byte, 70_000)
			for range 200 {
				off := rand.IntN(len(want))
				n, err := file.ReadAt(b, int64(off))
				if !bytes.Equal(b[:n], want[off:min(off+len(b), len(want))]) || err != nil && !errors.Is(err, io.EOF) || (err != nil) != (off+len(b) > len(want)) {
					t.Fatalf("%d bytes at %d: %v", n, off, err)
				}
			}
			if n, err := file.ReadAt(b, int64(len(want))); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("behind the end: %d, %v", n, err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	_, o := place(t, map[string][]byte{"FORMAT": nil, "packs/000001.pack": noise(7), "packs/more/x": nil})
	f := New(t.Context(), there+"/", o, Options{})
	for dir, want := range map[string][]string{"": {"FORMAT", "packs"}, "packs": {"000001.pack", "more"}} {
		if got, err := f.List(filepath.Join(there, dir)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", dir, got, err)
		}
	}
	if size, err := f.Size(filepath.Join(there, "packs/000001.pack")); size != 7 || err != nil {
		t.Errorf("%d bytes, %v", size, err)
	}
	for _, name := range []string{"packs/000002.pack", "pack", "packs/0", "CURRENT"} {
		_, opened := f.Open(filepath.Join(there, name))
		_, sized := f.Size(filepath.Join(there, name))
		_, listed := f.List(filepath.Join(there, name))
		for _, err := range []error{opened, sized, listed} {
			if p := (*fs.PathError)(nil); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &p) || p.Path != there+"/"+name {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A place with very many objects that is no store is not listed to find that out.
func TestNoStore(t *testing.T) {
	_, o := place(t, nil)
	f := New(t.Context(), there, unlisted{o}, Options{})
	if _, err := f.Open(filepath.Join(there, formatName)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

type unlisted struct{ blob.Objects }

func TestReadOnly(t *testing.T) {
	_, o := place(t, map[string][]byte{"FORMAT": nil})
	f := New(t.Context(), there, o, Options{})
	at := filepath.Join(there, "FORMAT")
	_, created := f.Create(at)
	_, written := f.OpenWrite(at)
	_, locked := f.Lock(at)
	file, err := f.Open(at)
	testenv.Must(t, err)
	_, wrote := file.WriteAt(nil, 0)
	for i, err := range []error{created, written, locked, wrote, file.Truncate(0), f.MkdirAll(at), f.Rename(at, at), f.Remove(at), f.RemoveAll(at), f.SyncDir(there)} {
		if !errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.EROFS) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// What was replaced is an error, but for the file that names what to open next.
func TestReplaced(t *testing.T) {
	for _, o := range []Options{{}, {Whole: true}, {Cache: cache(t)}} {
		dir, objects := place(t, map[string][]byte{"FORMAT": nil, "CURRENT": []byte("1"), "index.1/TABLE": []byte("table 1"), "1.pack": noise(9)})
		f := New(t.Context(), there, objects, o)
		if got, err := read(f, "CURRENT"); err != nil || string(got) != "1" {
			t.Errorf("%q, %v", got, err)
		}
		put(t, dir, "CURRENT", []byte("2"))
		if got, err := read(f, "CURRENT"); err != nil || string(got) != "2" && o.Cache == nil { // the cache has what is listed
			t.Errorf("replaced: %q, %v", got, err)
		}
		put(t, dir, "index.1/TABLE", []byte("table 2"))
		put(t, dir, "1.pack", noise(8))
		for _, name := range []string{"1.pack", "index.1/TABLE"} {
			if got, err := read(f, name); !errors.Is(err, blob.ErrChanged) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		for _, c := range []struct{ name, want string }{{"CURRENT", "2"}, {"index.1/TABLE", "table 2"}, {"1.pack", string(noise(8))}} {
			if got, err := read(f, c.name); err != nil || string(got) != c.want {
				t.Errorf("%s: %q, %v", c.name, got, err)
			}
		}
	}
}

// A second FS reads short files from the cache, and asks for nothing.
func TestShortFilesAreKept(t *testing.T) {
	_, objects := place(t, map[string][]byte{"FORMAT": noise(10), "generations/1": noise(smallFile)})
	kept := Options{Cache: cache(t)}
	for _, o := range []blob.Objects{objects, unread{objects}} {
		for _, name := range []string{"FORMAT", "generations/1"} {
			if _, err := read(New(t.Context(), there, o, kept), name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func cache(t *testing.T) *blockcache.Cache {
	t.Helper()
	c, err := blockcache.Open(t.TempDir(), blockcache.Options{})
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, c.Close()) })
	return c
}

// unread is a place that is only listed.
type unread struct{ blob.Objects }

func (unread) ReadAt(context.Context, string, blob.Version, []byte, int64) error {
	return errors.New("is not to be read")
}

func TestCheck(t *testing.T) {
	for s, want := range map[string]string{"s3://bucket/a/b/": "s3://bucket/a/b", "s3://bucket": "s3://bucket", "file:///a": "file:///a"} {
		if got, err := Check(s); got != want || err != nil {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"s3://key:secret@bucket/a", "s3://key@bucket", "s3://bucket/a?endpoint=x", "s3://bucket/a#x", "s3://%zz"} {
		if got, err := Check(s); err == nil || bytes.Contains([]byte(err.Error()), []byte("secret")) {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for s, want := range map[string]bool{"s3://b": true, "gs://b": true, "/a/s3://b": false, "s3:/b": false, "": false, "a://": true} {
		if Is(s) != want {
			t.Errorf("%q", s)
		}
	}
}

var _ vfs.FS = (*FS)(nil)

// Renew sees what is there now if the file that names what is current was replaced, and only then.
func TestRenew(t *testing.T) {
	for _, o := range []Options{{}, {Cache: cache(t)}} {
		dir, objects := place(t, map[string][]byte{"FORMAT": nil, "CURRENT": []byte("1"), "1.pack": noise(9)})
		f := New(t.Context(), there, objects, o)
		if got, err := read(f, "CURRENT"); err != nil || string(got) != "1" {
			t.Errorf("%q, %v", got, err)
		}
		put(t, dir, "2.pack", noise(8))
		testenv.Must(t, f.Renew(t.Context(), false))
		if _, err := read(f, "2.pack"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("nothing was replaced: %v", err)
		}
		testenv.Must(t, f.Renew(t.Context(), true))
		if _, err := read(f, "2.pack"); err != nil {
			t.Error(err)
		}
		put(t, dir, "3.pack", noise(7))
		put(t, dir, "CURRENT", []byte("2"))
		ended, end := context.WithCancel(t.Context())
		end()
		if err := f.Renew(ended, false); err == nil {
			t.Error("it was listed although its context has ended")
		}
		if got, err := read(f, "1.pack"); err != nil || !bytes.Equal(got, noise(9)) {
			t.Errorf("what was listed before: %v", err)
		}
		testenv.Must(t, f.Renew(t.Context(), false))
		for name, want := range map[string]string{"CURRENT": "2", "3.pack": string(noise(7))} {
			if got, err := read(f, name); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
}
