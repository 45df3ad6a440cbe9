package store

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
)

// longSource has one long file, which must not be asked for as a whole.
type longSource struct {
	*memSource
	t *testing.T
}

func (s longSource) Read(ctx context.Context, name string) ([]byte, Identity, error) {
	if name == "long.txt" {
		s.t.Errorf("%s is read as a whole", name)
	}
	return s.memSource.Read(ctx, name)
}

// TestLongFileIsCopied wants a file of which no codec knows anything to be stored
// piece by piece, beside samples and in records of many.
func TestLongFileIsCopied(t *testing.T) {
	src := generate(random(t), 20, 3_000)
	src.put("class1/0000a.jpg", []byte("in the same record, were it not for the long one"))
	src.put("long.txt", noise(random(t), 300_001))
	o := PackOptions{RecordImages: 16, RecordBytes: 1 << 20, PackBytes: 1 << 20}
	dir := filepath.Join(tempDir(t), "store")
	if rep := mustPack(t, dir, longSource{src, t}, o); rep.Failed != 0 {
		t.Errorf("report %+v", rep)
	}
	checkStore(t, dir, src)
	again := filepath.Join(tempDir(t), "again")
	o.Workers, o.MemoryBytes = 1, 1
	mustPack(t, again, longSource{src, t}, o)
	if !samePacks(packFiles(t, dir), packFiles(t, again)) {
		t.Error("the packs depend on the number of workers")
	}
}

// brokenSource fails in the middle of a file.
type brokenSource struct {
	*memSource
	after int
}

var errBroken = errors.New("a bad sector")

func (s brokenSource) Copy(ctx context.Context, name string, w io.Writer) (Identity, error) {
	data, id, _ := s.Read(ctx, name)
	_, err := w.Write(data[:s.after])
	return id, errors.Join(err, errBroken)
}

// TestCopyThatFails wants a long file that cannot be read to its end to be left out,
// and everything else to be there.
func TestCopyThatFails(t *testing.T) {
	src := generate(random(t), 10, 3_000)
	src.put("long.txt", noise(random(t), 300_000))
	src.put("z.jpg", []byte("after it"))
	dir := filepath.Join(tempDir(t), "store")
	o := PackOptions{RecordBytes: 1 << 20, Logger: quiet}
	var left []string
	o.Warn = func(path string, err error) {
		if !errors.Is(err, errBroken) {
			t.Error(err)
		}
		left = append(left, path)
	}
	if rep := mustPack(t, dir, brokenSource{src, 200_000}, o); rep.Failed != 1 || len(left) != 1 || left[0] != "long.txt" {
		t.Errorf("report %+v, left out %v", rep, left)
	}
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
			src.put(path, noise(random(t), 280_000+50_000*changes))
		}
	}
	dir := filepath.Join(tempDir(t), "store")
	mustPack(t, dir, src, PackOptions{RecordBytes: 1 << 20})
	src.onRead = nil
	checkStore(t, dir, src)
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
