package store

import (
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// longSource has long files, which are copied.
type longSource struct {
	*memSource
	copied map[string]bool
}

func (s longSource) Copy(ctx context.Context, name string, w io.Writer) (Identity, error) {
	s.copied[name] = true
	return s.memSource.Copy(ctx, name, w)
}

// TestLongFileIsCopied wants a file of which no codec knows anything to be stored
// piece by piece, beside samples and in records of many.
func TestLongFileIsCopied(t *testing.T) {
	src := generate(random(t), 20, 3_000)
	src.put("class1/0000a.jpg", []byte("in the same record, were it not for the long one"))
	src.put("long.txt", noise(random(t), 300_001))
	src.put("long enough.txt", noise(random(t), 1<<18))
	src.put("not so long.txt", noise(random(t), 1<<18-1))
	o := PackOptions{RecordImages: 16, RecordBytes: 1 << 20, PackBytes: 1 << 20}
	dir, copied := filepath.Join(tempDir(t), "store"), map[string]bool{}
	if rep := mustPack(t, dir, longSource{src, copied}, o); rep.Failed != 0 || !maps.Equal(copied, map[string]bool{"long.txt": true, "long enough.txt": true}) {
		t.Errorf("report %+v, copied %v", rep, copied)
	}
	checkStore(t, dir, src)
	again := filepath.Join(tempDir(t), "again")
	o.Workers, o.MemoryBytes = 1, 1
	mustPack(t, again, longSource{src, copied}, o)
	if !samePacks(packFiles(t, dir), packFiles(t, again)) {
		t.Error("the packs depend on the number of workers")
	}
}

// brokenSource fails in the middle of a file, or ends there.
type brokenSource struct {
	*memSource
	after int
	why   error
}

var errBroken = errors.New("a bad sector")

func (s brokenSource) Copy(ctx context.Context, name string, w io.Writer) (Identity, error) {
	data, id, _ := s.Read(ctx, name)
	_, err := w.Write(data[:s.after])
	return id, errors.Join(err, s.why)
}

// TestCopyThatFails wants a long file that cannot be read to its end to be left out,
// and everything else to be there.
func TestCopyThatFails(t *testing.T) {
	src := generate(random(t), 10, 3_000)
	src.put("long.txt", noise(random(t), 300_000))
	src.put("z.jpg", []byte("after it"))
	dir := filepath.Join(tempDir(t), "store")
	o := PackOptions{RecordBytes: 1 << 20, Logger: quiet}
	synctest.Test(t, func(t *testing.T) {
		for why, want := range map[error]error{errBroken: errBroken, nil: ErrChanged} {
			var left []string
			o.Warn = func(path string, err error) {
				if !errors.Is(err, want) {
					t.Error(err)
				}
				left = append(left, path)
			}
			if rep := mustPack(t, dir, brokenSource{src, 200_000, why}, o); rep.Failed != 1 || len(left) != 1 || left[0] != "long.txt" {
				t.Errorf("report %+v, left out %v", rep, left)
			}
		}
	})
	delete(src.files, "long.txt")
	checkStore(t, dir, src)
}

// TestCopyOfAChangingFile wants the bytes of one version.
func TestCopyOfAChangingFile(t *testing.T) {
	src := generate(random(t), 5, 3_000)
	src.put("long.txt", noise(random(t), 300_000))
	changes := 0
	src.onRead = func(path string) {
		if path == "long.txt" && changes < 2 {
			changes++
			src.put(path, noise(random(t), 350_000-50_000*changes)) // as long, then shorter
		}
	}
	dir := filepath.Join(tempDir(t), "store")
	o := PackOptions{RecordBytes: 1 << 20}
	mustPack(t, dir, src, o)
	src.onRead = nil
	checkStore(t, dir, src)

	// One that never rests is left out, and what was written of it is cut off.
	tries := 0
	src.onRead = func(path string) {
		tries++
		src.put(path, noise(random(t), 280_000+tries))
	}
	src.onRead("long.txt")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rep := mustPack(t, dir, src, o)
		if waited := time.Since(began); tries != 6 || rep.Failed != 1 || rep.Bytes > 0 || waited != 180*time.Millisecond {
			t.Errorf("copied %d times, with pauses of %v: %+v", tries-1, waited, rep)
		}
	})
}

// TestFileOverTheFormatsLimit wants a file that no entry can describe to be left out
// before anything of it is read.
func TestFileOverTheFormatsLimit(t *testing.T) {
	src := generate(random(t), 5, 3_000)
	src.put("long.txt", nil)
	long := src.files["long.txt"]
	long.id.Size = 1e12
	src.files["long.txt"] = long
	src.readErr["long.txt"] = errors.New("it is read")
	left := 0
	o := PackOptions{Logger: quiet, Warn: func(path string, err error) {
		if left++; path != "long.txt" || errors.Is(err, src.readErr["long.txt"]) {
			t.Errorf("%s: %v", path, err)
		}
	}}
	dir := filepath.Join(tempDir(t), "store")
	if mustPack(t, dir, src, o); left != 1 {
		t.Errorf("%d files left out", left)
	}
	delete(src.files, "long.txt")
	checkStore(t, dir, src)
}
