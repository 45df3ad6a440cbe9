package serve

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

func TestBuffersHaveRoom(t *testing.T) {
	for size := int64(0); size < 1<<16; size++ {
		index, room := class(size)
		if room < size || room > max(8, size+size/4) || index < 0 || index >= len(buffers{}.classes) {
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

// TestMemoryIsNotUsedTwice: the memory of a result goes to the next one when
// nobody holds it any more, and not before. What comes back is spoilt at once, so
// that neither a reader nor padding can live off what was there.
func TestMemoryIsNotUsedTwice(t *testing.T) {
	root := t.TempDir()
	const count = 12
	shades := rand.New(rand.NewPCG(1, 2))
	for i := range count {
		// Widths whose rows a bitmap pads, all in the same few classes of size.
		px := &transcode.Pixels{Width: 61 + i%3, Height: 40, Mode: transcode.ModeRGB}
		px.Pix = make([]byte, px.Len())
		for j := range px.Pix {
			px.Pix[j] = byte(shades.Uint32())
		}
		file, err := l3.Encode(px, l3.Options{})
		testenv.Must(t, err)
		testenv.Must(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("%02d.l3", i)), file, 0o644))
	}
	f := newFixture(t, root, func(o *Options) { o.CacheBytes, o.Workers = 1, 4 })
	f.sources.poison, f.outputs.poison = true, true

	specs := []string{"bmp", "npy", "ppm", "chw-npy"}
	type target struct {
		key  Key
		file File
		view transcode.Pipeline
		want []byte
	}
	var targets []target
	for i := range count {
		for _, spec := range specs {
			name := fmt.Sprintf("%02d.l3", i)
			v := view(t, spec)
			targets = append(targets, target{Key(len(targets)), f.file(t, name), v, want(t, root, name, v)})
		}
	}
	var readers sync.WaitGroup
	for seed := range uint64(8) {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 3))
			for range 400 {
				at := targets[random.IntN(len(targets))]
				c, err := f.Open(t.Context(), at.key, at.file, at.view)
				if err != nil {
					t.Error(err)
					return
				}
				half := len(at.want) / 2
				got := c.Bytes(0, half)
				if random.IntN(2) == 0 {
					f.Drop(at.key) // as when somebody else has read the rest
				}
				if rest := c.Bytes(int64(half), len(at.want)); !bytes.Equal(got, at.want[:half]) || !bytes.Equal(rest, at.want[half:]) {
					t.Errorf("%s in %v: wrong bytes", at.file.Path, at.view)
				}
				c.Release()
			}
		})
	}
	readers.Wait()
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
