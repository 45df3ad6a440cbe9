package serve

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// readsOf counts what is read of a dataset.
type readsOf struct{ reads, bytes atomic.Int64 }

func (r *readsOf) Begin() time.Time { return time.Time{} }

func (r *readsOf) Done(_ time.Time, n int) {
	r.reads.Add(1)
	r.bytes.Add(int64(n))
}

// TestWhatIsKeptNeedsNoSource: of a view that a mount before this one kept, the
// dataset's file is not read, but for the first of a kind; and where a sample is
// unlike the one before, its header is read and the view is right all the same.
func TestWhatIsKeptNeedsNoSource(t *testing.T) {
	root, cache := t.TempDir(), t.TempDir()
	names := []string{"a.jpg", "b.JPG", "c.jpg", "d.jpg", "odd.png", "pale.png"}
	for i, name := range names {
		var file bytes.Buffer
		var err error
		switch img := pictures.Photo(130+i, 97, uint64(i)); {
		case name == "odd.png": // a mask: no step but an exact one applies
			err = png.Encode(&file, image.NewPaletted(img.Bounds(), color.Palette{color.Black, color.White}))
		case filepath.Ext(name) == ".png":
			err = png.Encode(&file, img)
		default:
			err = jpeg.Encode(&file, img, nil)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), file.Bytes(), 0o644)
		}
		testenv.Must(t, err)
	}
	for _, spec := range []string{"scan5", "scan2-resize32-npy", "resize64-bmp", "png"} {
		t.Run(spec, func(t *testing.T) {
			v := view(t, spec)
			for mount := range 3 {
				overlay := openOverlay(t, filepath.Join(cache, spec), 0)
				reads := &readsOf{}
				d, err := source.Open(root, source.Options{Limit: reads})
				testenv.Must(t, err)
				f := newFixture(t, root, func(o *Options) { o.Overlay, o.Source, o.Dataset = overlay, d, d })
				for i, name := range names {
					before := reads.reads.Load()
					got, err := f.read(Key(i), f.file(t, name), v)
					if err != nil || !bytes.Equal(got, want(t, root, name, v)) {
						t.Fatalf("mount %d: %s differs, %v", mount, name, err)
					}
					n := reads.reads.Load() - before
					if likeTheLast := filepath.Ext(name) != ".png" && name != "a.jpg"; mount > 0 && likeTheLast && n > 0 {
						t.Errorf("mount %d: %s of %s took %d reads of the dataset", mount, spec, name, n)
					}
				}
				if mount == 0 && reads.bytes.Load() == 0 {
					t.Error("the reads of the dataset are not counted")
				}
				f.Close() // now all is written
				d.Close()
				testenv.Must(t, overlay.Close())
			}
		})
	}
}

// TestWhatIsKeptOfAnotherVersion: a file that was replaced is looked at, whatever is
// kept of the one before.
func TestWhatIsKeptOfAnotherVersion(t *testing.T) {
	root := t.TempDir()
	overlay := openOverlay(t, t.TempDir(), 0)
	defer overlay.Close()
	v := view(t, "resize64-bmp")
	var before File
	for _, width := range []int{120, 240} {
		var file bytes.Buffer
		testenv.Must(t, jpeg.Encode(&file, pictures.Photo(width, 90, 1), nil))
		for _, name := range []string{"a.jpg", "b.jpg"} {
			testenv.Must(t, os.WriteFile(filepath.Join(root, name), file.Bytes(), 0o644))
		}
		for range 2 {
			f := newFixture(t, root, func(o *Options) { o.Overlay = overlay })
			for i, name := range []string{"a.jpg", "b.jpg"} {
				got, err := f.read(Key(i), f.file(t, name), v)
				if err != nil || !bytes.Equal(got, want(t, root, name, v)) {
					t.Errorf("%d pixels wide: %s differs, %v", width, name, err)
				}
			}
		}
		f := newFixture(t, root, nil)
		if _, err := f.Resolve(t.Context(), 9, before, v); !errors.Is(err, source.ErrChanged) && width > 120 {
			t.Errorf("the version before: %v", err)
		}
		before = f.file(t, "a.jpg")
	}
	put(t, root, "small.jpg", pictures.Photo(20, 20, 1))
	for _, limits := range []transcode.Limits{{MaxPixels: 240*90 - 1}, {MaxFile: 1500}} { // lower than before
		f := newFixture(t, root, func(o *Options) { o.Overlay, o.Registry = overlay, codecs.Default(limits) })
		if f.planned(t, "small.jpg", v.String()).Unchanged() || !f.planned(t, "b.jpg", v.String()).Unchanged() {
			t.Errorf("%+v do not hold for what is kept", limits)
		}
	}
}

// TestFileIsOpenedOnce: the file whose header was read at a LOOKUP is the one that is read,
// wherever its name leads meanwhile. Of files that nobody comes for only a few stay open.
func TestFileIsOpenedOnce(t *testing.T) {
	root := t.TempDir()
	photo, err := os.ReadFile(filepath.Join(writeDataset(t), "a.jpg"))
	testenv.Must(t, err)
	testenv.Must(t, os.Mkdir(filepath.Join(root, "d"), 0o755))
	for i := range probedFiles + 1 {
		testenv.Must(t, os.WriteFile(filepath.Join(root, "d", fmt.Sprintf("%02d.jpg", i)), photo, 0o644))
	}
	f := newFixture(t, root, nil)
	v := view(t, "bmp")
	var handles []*Handle
	for i := range probedFiles + 1 {
		h, err := f.Resolve(t.Context(), Key(i), f.file(t, fmt.Sprintf("d/%02d.jpg", i)), v)
		testenv.Must(t, err)
		handles = append(handles, h)
	}
	wanted := want(t, root, "d/00.jpg", v)
	// The files stay what they are; their paths lead nowhere.
	testenv.Must(t, os.Rename(filepath.Join(root, "d"), filepath.Join(root, "e")))
	for i, h := range handles {
		c, err := h.Open(t.Context())
		if i == 0 { // the oldest was closed for the newest
			if !errors.Is(err, source.ErrChanged) {
				t.Errorf("the first file: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		got := make([]byte, c.Size())
		if _, err := c.ReadAt(got, 0); err != nil || !bytes.Equal(got, wanted) {
			t.Errorf("file %d: %v", i, err)
		}
		c.Release()
	}
}
