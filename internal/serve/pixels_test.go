package serve

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// drawn is a random view in one epoch, or another draw in it.
func drawn(t testing.TB, spec string, epoch uint64, repeat uint32) transcode.Pipeline {
	t.Helper()
	v, err := registry.ParseRandom(spec)
	testenv.Must(t, err)
	return v.In(7, epoch).Repeat(repeat)
}

// wantDrawn computes a draw by the plan alone, from all of the sample.
func wantDrawn(t testing.TB, root, name string, v transcode.Pipeline) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root, name))
	testenv.Must(t, err)
	info, err := registry.ProbeBytes(src)
	testenv.Must(t, err)
	d, _ := v.DrawOf(name)
	out, err := registry.Plan(v, info, transcode.Auto).Drawn(d).Run(context.Background(), src)
	testenv.Must(t, err)
	return out
}

// dino are the views of ten crops of a sample.
func dino(t testing.TB, epoch uint64) (views []transcode.Pipeline) {
	for n := range uint32(10) {
		spec := "rrc96scale5to40-hflip-npy"
		if n < 2 {
			spec = "rrc224scale40to100-hflip-npy"
		}
		views = append(views, drawn(t, spec, epoch, n))
	}
	return views
}

// TestDrawsShareOneDecode: several draws of a sample read it once. The first sample is read
// twice: its first draw could have been the only one.
func TestDrawsShareOneDecode(t *testing.T) {
	f := newFixture(t, writeDataset(t), nil)
	key := Key(0)
	read := func(name string, v transcode.Pipeline) {
		key++
		if got, err := f.read(key, f.file(t, name), v); err != nil || !bytes.Equal(got, wantDrawn(t, f.root, name, v)) {
			t.Errorf("%s, %s: %d bytes, %v", name, v.Path(), len(got), err)
		}
		f.Drop(key)
	}
	read("b.jpg", drawn(t, "rrc32-npy", 0, 0)) // also looks for masks
	for i, name := range []string{"a.jpg", "c.png"} {
		before := f.Stats()
		for _, v := range dino(t, 0) {
			read(name, v)
		}
		now := f.Stats()
		if size := f.file(t, name).Identity.Size; now.FetchedBytes-before.FetchedBytes != int64(2-i)*size {
			t.Errorf("%s: ten draws fetched %d bytes of a file of %d", name, now.FetchedBytes-before.FetchedBytes, size)
		}
		if n := now.Produced - before.Produced; n != 11 {
			t.Errorf("%s: ten draws made %d results", name, n)
		}
	}
	if n := f.results.Len(); n != 2 {
		t.Errorf("%d results are kept, want the pixels of two samples", n)
	}

	// Many at once
	var readers sync.WaitGroup
	for i := range 16 {
		readers.Go(func() {
			for n, v := range dino(t, 3) {
				name := []string{"a.jpg", "b.jpg", "c.png"}[(i+n)%3]
				got, err := f.read(Key(1000+100*i+n), f.file(t, name), v)
				if err != nil || !bytes.Equal(got, wantDrawn(t, f.root, name, v)) {
					t.Errorf("%s, %s: %d bytes, %v", name, v.Path(), len(got), err)
				}
				f.Drop(Key(1000 + 100*i + n))
			}
		})
	}
	readers.Wait()
}

// TestPixelsAreForgotten when enough other samples were drawn.
func TestPixelsAreForgotten(t *testing.T) {
	root := t.TempDir()
	for i := range 8 {
		testenv.Must(t, pictures.Write(filepath.Join(root, fmt.Sprintf("%d.jpg", i)), pictures.Photo(120, 90, uint64(i))))
	}
	const room = 4 * 120 * 90 * 3 // for the pixels of four samples
	f := newFixture(t, root, func(o *Options) { o.CacheBytes = 6 * (room + 1000) })
	for epoch := range uint64(3) {
		before := f.Stats().Produced
		for i := range 8 {
			key := epoch*8 + uint64(i)
			if _, err := f.read(key, f.file(t, fmt.Sprintf("%d.jpg", i)), drawn(t, "rrc32-npy", epoch, 0)); err != nil {
				t.Error(err)
			}
			f.Drop(key)
		}
		if n := f.Stats().Produced - before; n != 8 {
			t.Errorf("epoch %d: %d results for eight draws", epoch, n)
		}
	}
	for n := range uint32(3) { // 3.jpg was drawn long ago
		if _, err := f.read(Key(100+n), f.file(t, "3.jpg"), drawn(t, "rrc32-npy", 3, n)); err != nil {
			t.Error(err)
		}
		f.Drop(Key(100 + n))
	}
	if n := f.results.Len(); n != 1 {
		t.Errorf("%d results are kept, want the pixels of one sample", n)
	}
	for i := range 5 { // of another seed
		if _, err := f.read(Key(200+i), f.file(t, fmt.Sprintf("%d.jpg", (i+4)%8)), drawn(t, "rrc32-npy", 4, 0).In(8, 4)); err != nil {
			t.Error(err)
		}
		f.Drop(Key(200 + i))
	}
	if n := f.results.Len(); n != 0 {
		t.Errorf("%d results are kept after five other samples", n)
	}
}

// keepAs puts what a view makes of a sample into the overlay, however large it is.
func (f fixture) keepAs(t testing.TB, name, spec string) (made []byte) {
	t.Helper()
	h := f.planned(t, name, spec)
	m, err := h.Make(t.Context())
	testenv.Must(t, err)
	defer m.Release()
	testenv.Must(t, f.keeper.keep(h, m.Split))
	return bytes.Clone(m.Split.Data)
}

// TestRowsOfStoredPixels: of pixels that are stored, or that the dataset holds, the rows of a
// crop are read, and no others.
func TestRowsOfStoredPixels(t *testing.T) {
	root := t.TempDir()
	testenv.Must(t, pictures.Write(filepath.Join(root, "a.jpg"), pictures.Photo(400, 300, 1)))
	for _, spec := range []string{"bmp", "ppm"} {
		testenv.Must(t, os.WriteFile(filepath.Join(root, "b."+spec), want(t, root, "a.jpg", view(t, spec)), 0o644))
	}
	for _, stored := range []string{"bmp", "ppm"} {
		t.Run(stored, func(t *testing.T) {
			dir := t.TempDir()
			kept := openOverlay(t, dir, 0)
			defer func() { testenv.Must(t, kept.Close()) }()
			f := newFixture(t, root, func(o *Options) { o.Overlay = kept })
			file := f.keepAs(t, "a.jpg", stored)
			rows := int64(0)
			for _, name := range []string{"a.jpg", "b." + stored} {
				for epoch := range uint64(30) {
					spec := []string{"rrc64scale5to60-hflip-npy", "randcrop100-npy", "rrc48ratio100to100-chw-npy"}[epoch%3]
					v := drawn(t, spec, epoch, 0)
					// Where the crop's rows are, as torchvision counts them.
					h, err := f.Resolve(t.Context(), epoch, f.file(t, name), v)
					testenv.Must(t, err)
					box := h.Plan().Steps()[1].Choice
					before := f.Stats().FetchedBytes
					c, err := h.Open(t.Context())
					testenv.Must(t, err)
					got := make([]byte, c.Size())
					_, err = c.ReadAt(got, 0)
					c.Release()
					h.Drop()
					if err != nil || !bytes.Equal(got, wantDrawn(t, root, name, v)) {
						t.Fatalf("%s, %s: %v", name, v.Path(), err)
					}
					fetched := f.Stats().FetchedBytes - before
					most := int64(box.Height*400*3 + transcode.HeadLen)
					if name == "a.jpg" { // what is stored is read in chunks: that of the head, and the rows' own
						most += 3 * store.ChunkSize
					}
					if fetched > most {
						t.Errorf("%s, %s: %d bytes for %d rows", name, v.Path(), fetched, box.Height)
					}
					rows += fetched
				}
			}
			if rows == 0 {
				t.Error("nothing was fetched")
			}
			// Damage is found where it is read, and the pixels are made again. Chunks of 64 KiB
			// are verified: the middle of the picture is in none with its head.
			damage(t, dir, file[len(file)/2:])
			for epoch := range uint64(10) {
				v := drawn(t, "rrc64-hflip-npy", epoch, 0)
				got, err := f.read(1000+epoch, f.file(t, "a.jpg"), v)
				if err != nil || !bytes.Equal(got, wantDrawn(t, root, "a.jpg", v)) {
					t.Errorf("%s, damaged: %v", v.Path(), err)
				}
			}
			if n := f.Stats().Mix.Fallbacks; n == 0 {
				t.Error("the damage was not found")
			}
		})
	}
}
