package serve

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func TestBuffersHaveRoom(t *testing.T) {
	for size := int64(0); size < 1<<16; size++ {
		index, room := class(size)
		if room < size || room > max(5, size+size/4) || index < 0 || index >= len(buffers{}.classes) {
			t.Fatalf("%d bytes: class %d of %d", size, index, room)
		}
		if again, same := class(room); again != index || same != room {
			t.Fatalf("%d bytes: class %d of %d, but those are of class %d", size, index, room, again)
		}
	}
	if index, room := class(1<<62 - 1); index >= len(buffers{}.classes) || room != 1<<62 {
		t.Errorf("the largest: class %d of %d", index, room)
	}
	var b buffers
	for _, size := range []int64{0, 5, 1000, 1 << 20} {
		if got := b.get(size); int64(len(got)) != size {
			t.Errorf("%d bytes where %d were asked for", len(got), size)
		}
	}
}

// TestPassed: content that has gone out whole leaves no trace in memory.
func TestPassed(t *testing.T) {
	f := newFixture(t, writeDataset(t), nil)
	c, err := f.Open(t.Context(), 7, f.file(t, "a.jpg"), view(t, "bmp"))
	testenv.Must(t, err)
	defer c.Release()
	if c.Passed(int(c.Size()) - 1) {
		t.Error("one byte is missing")
	}
	if !c.Passed(1) {
		t.Error("all bytes went out")
	}
	f.Drop(7)
	if f.Acquire(7) != nil || f.results.Len() != 0 {
		t.Errorf("dropped, but %d results are remembered", f.results.Len())
	}
}

// TestContentBytes wants memory that is not copied to be what reading gives.
func TestContentBytes(t *testing.T) {
	c := &Content{size: 7, reader: memory{data: []byte("abcde"), tail: []byte("fg")}}
	for off := int64(-1); off < 9; off++ {
		for n := range 9 {
			got := c.Bytes(off, n)
			if got == nil {
				// It may be asked to be read: before, behind, and across the pieces.
				if off >= 0 && off < 5 && off+int64(n) <= 5 {
					t.Errorf("%d bytes at %d are not given", n, off)
				}
				continue
			}
			want := make([]byte, n)
			m, _ := c.ReadAt(want, off)
			if !bytes.Equal(got, want[:m]) {
				t.Errorf("%d bytes at %d: %q, want %q", n, off, got, want[:m])
			}
		}
	}
}

// TestLongFile wants a picture with a hole of a terabyte behind it to be shown as it
// is, whatever the view, and what is said of it to name the option.
func TestLongFile(t *testing.T) {
	root := writeDataset(t)
	const size = 1 << 40
	if err := os.Truncate(filepath.Join(root, "a.jpg"), size); err != nil {
		t.Skip("no sparse files here: ", err)
	}
	var said bytes.Buffer
	f := newFixture(t, root, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&said, nil)) })
	head := make([]byte, 100)
	for i, spec := range views {
		v := view(t, spec)
		got, err := f.Resolve(t.Context(), Key(i), f.file(t, "a.jpg"), v)
		if err != nil || got.Size() != size || !got.Unchanged() {
			t.Errorf("%s: %+v, %v", spec, got, err)
		}
		c, err := f.Open(t.Context(), Key(i), f.file(t, "a.jpg"), v)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		if n, err := c.ReadAt(head, size-10); n != 10 || c.Size() != size {
			t.Errorf("%s: %d bytes of its last ten, %v", spec, n, err)
		}
		c.Release()
	}
	if n := strings.Count(said.String(), "--max-file raises the limit"); n != 1 {
		t.Errorf("the option is named %d times in\n%s", n, said.String())
	}
}

// TestOverTheLimitSincePacked wants what a store holds of a file, and would have to be
// read whole, to be refused by a mount with a lower limit, and the rest to be shown.
func TestOverTheLimitSincePacked(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	packWith(t, registry, root, dir, pack.Keep)
	low := codecs.Default(transcode.Limits{MaxFile: 100})
	f := fromStore(t, low, dir, nil)
	if _, err := f.read(1, f.file(t, "a.jpg"), view(t, "scan5")); err != nil {
		t.Errorf("what is stored: %v", err)
	}
	if _, err := f.read(2, f.file(t, "a.jpg"), view(t, "bmp")); err == nil || !strings.Contains(err.Error(), "--max-file raises the limit") {
		t.Errorf("what has to be decoded: %v", err)
	}
}

// TestManySourcesShareTheMemory wants sources in work to wait for each other where
// they are more than the budget, and none to wait for ever.
func TestManySourcesShareTheMemory(t *testing.T) {
	f := newFixture(t, writeDataset(t), func(o *Options) { o.Workers = 4 })
	h := f.planned(t, "a.jpg", "bmp")
	c := newLimiter(4, h.work()+100) // less than any two
	done := make(chan error)
	for range 8 {
		go func() {
			made := (&result{from: &f.outputs}).hold()
			done <- f.run(t.Context(), c, made, h, &f.candidates(h)[0])
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if !c.memory.TryAcquire(c.bytes) {
		t.Error("memory was not given back")
	}
}
