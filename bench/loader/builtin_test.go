package loader

import (
	"context"
	"errors"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func TestBuiltinReadsAll(t *testing.T) {
	dir, names := tree(t, 24)
	before := slices.Clone(names)
	for _, workers := range []int{0, 1, 5} {
		e, err := Builtin{Workers: workers}.Epoch(t.Context(), Job{Dir: dir, Files: names, Seed: 3})
		testenv.Must(t, err)
		check(t, e, 24, bytesOf(t, dir, names))
	}
	// A list is not the loader's to change.
	if !slices.Equal(names, before) {
		t.Errorf("the list was shuffled: %q", names)
	}
	e, err := Builtin{}.Epoch(t.Context(), Job{Dir: dir, Files: names[:5]})
	testenv.Must(t, err)
	check(t, e, 5, bytesOf(t, dir, names[:5]))
}

// TestBuiltinLooks wants pictures and arrays to be found, deep down and behind links,
// and nothing else.
func TestBuiltinLooks(t *testing.T) {
	dir, names := tree(t, 6)
	outside, _ := tree(t, 2)
	testenv.Must(t, os.Symlink(outside, filepath.Join(dir, "linked")))
	testenv.Must(t, os.Symlink(dir, filepath.Join(dir, "class0/around")))
	write(t, filepath.Join(dir, "a/b/c.npy"), []byte("\x93NUMPY and what follows"))
	write(t, filepath.Join(dir, "labels.json"), []byte("{}"))
	e, err := Builtin{}.Epoch(t.Context(), Job{Dir: dir})
	testenv.Must(t, err)
	check(t, e, 9, bytesOf(t, dir, append(names, "linked/class0/000.jpg", "linked/class1/001.jpg", "a/b/c.npy")))
	if _, err := (Builtin{}).Epoch(t.Context(), Job{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no pictures") {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestSeedIsTheOrder(t *testing.T) {
	_, names := tree(t, 16)
	order := func(seed uint64) []string {
		files, err := shuffled(codecs.Default(transcode.Limits{}), Job{Dir: "d", Files: names, Seed: seed})
		testenv.Must(t, err)
		return files
	}
	if !slices.Equal(order(1), order(1)) || slices.Equal(order(1), order(2)) {
		t.Errorf("seed 1 gave %q, seed 2 %q", order(1), order(2))
	}
}

func TestBuiltinNamesTheFile(t *testing.T) {
	dir, names := tree(t, 8)
	for _, c := range []struct {
		name  string
		spoil func(file string) error
	}{
		{"cut", func(file string) error { return os.Truncate(file, 60) }},
		{"gone", os.Remove},
	} {
		testenv.Must(t, c.spoil(filepath.Join(dir, names[5])))
		for _, compute := range []Compute{{}, {Time: time.Millisecond, Batch: 1}} {
			_, err := Builtin{}.Epoch(t.Context(), Job{Dir: dir, Files: names, Compute: compute})
			if err == nil || !strings.Contains(err.Error(), names[5]) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// TestUtilisation wants an accelerator that takes much longer than the pictures do to
// be busy, and one that takes much less to wait.
func TestUtilisation(t *testing.T) {
	dir, names := tree(t, 40)
	busy, err := Builtin{Workers: 1}.Epoch(t.Context(), Job{
		Dir: dir, Files: names, Compute: Compute{Time: 200 * time.Millisecond, Batch: 8}, Warm: 8,
	})
	testenv.Must(t, err)
	if busy.Utilisation < 0.5 || busy.Utilisation > 1 || busy.Wait99 < 0 {
		t.Errorf("an accelerator that takes longer: %+v", busy)
	}
	// 4 batches of 8 after the warm-up take 0.2 s each, and whatever else happens.
	if busy.Rate > 40 || busy.Seconds < 1 {
		t.Errorf("faster than the accelerator: %+v", busy)
	}
	idle, err := Builtin{Workers: 1}.Epoch(t.Context(), Job{
		Dir: dir, Files: names, Compute: Compute{Time: time.Microsecond, Batch: 1},
	})
	testenv.Must(t, err)
	if idle.Utilisation <= 0 || idle.Utilisation > 0.5 || idle.Wait99 <= 0 {
		t.Errorf("an accelerator that takes no time: %+v", idle)
	}
	// What is left over is less than a batch, and takes its share of the time.
	if all, err := (Builtin{}).Epoch(t.Context(), Job{
		Dir: dir, Files: names[:9], Compute: Compute{Time: 80 * time.Millisecond, Batch: 8},
	}); err != nil || all.Samples != 9 || all.Seconds < 0.09 {
		t.Errorf("%+v %v", all, err)
	}
}

// TestWarm wants a slow beginning not to count, unless less than that follows.
func TestWarm(t *testing.T) {
	dir, names := tree(t, 12)
	for _, c := range []struct {
		warm int
		slow bool
	}{{0, true}, {6, false}, {7, true}} {
		a := newAccelerator(Job{Warm: c.warm}, len(names))
		a.since = a.since.Add(-time.Hour) // when the epoch began
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.run(t.Context())
		}()
		for range names {
			testenv.Must(t, a.put(t.Context()))
		}
		<-ended
		var e Epoch
		a.fill(&e)
		if slow := e.Rate < 1; slow != c.slow || e.Samples != 12 {
			t.Errorf("warm-up of %d of 12: %+v", c.warm, e)
		}
	}
	e, err := Builtin{}.Epoch(t.Context(), Job{Dir: dir, Files: names, Warm: 4})
	testenv.Must(t, err)
	check(t, e, 12, bytesOf(t, dir, names))
}

func TestBuiltinEnds(t *testing.T) {
	dir, names := tree(t, 12)
	for _, after := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_, err := Builtin{Workers: 2}.Epoch(ctx, Job{Dir: dir, Files: names, Compute: Compute{Time: time.Hour, Batch: 2}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", after, err)
		}
		cancel()
	}
}

// TestDisk wants what is not in the page cache to be counted.
func TestDisk(t *testing.T) {
	dir, names := tree(t, 8)
	var fs unix.Statfs_t
	testenv.Must(t, unix.Statfs(dir, &fs))
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		t.Skip("the temporary directory is not on a disk")
	}
	testenv.Must(t, Forget(dir))
	e, err := Builtin{}.Epoch(t.Context(), Job{Dir: dir, Files: names})
	testenv.Must(t, err)
	if e.Disk < e.Bytes {
		t.Errorf("%d bytes were read from the disk, of files that have %d", e.Disk, e.Bytes)
	}
}

// TestLoadConverts wants pixels as Pillow's convert("RGB") has them.
func TestLoadConverts(t *testing.T) {
	testenv.Slow(t)
	photo := pictures.Photo(31, 17, 1)
	grey := image.NewGray(photo.Rect)
	for i := range grey.Pix {
		grey.Pix[i] = photo.Pix[4*i]
	}
	alpha := pictures.Photo(31, 17, 2)
	for i := 3; i < len(alpha.Pix); i += 4 {
		alpha.Pix[i] = byte(i)
	}
	registry := codecs.Default(transcode.Limits{})
	for name, img := range map[string]image.Image{
		"rgb": photo, "grey": grey, "alpha": alpha, "palette": pictures.Mask(31, 17, 5, 3), "bit": pictures.Mask(31, 17, 2, 3),
	} {
		file := filepath.Join(t.TempDir(), name+".png")
		data, err := pictures.Encode(file, img)
		testenv.Must(t, err)
		write(t, file, data)
		px, err := registry.Decode(t.Context(), data)
		testenv.Must(t, err)
		got := make([]byte, 4*px.Width*px.Height)
		spread(got, px)
		want := pillow(t, `import sys; from PIL import Image
sys.stdout.buffer.write(Image.open(sys.argv[1]).convert("RGB").convert("RGBA").tobytes())`, file)
		if string(got) != want {
			t.Errorf("%s: other pixels than Pillow's, mode %v", name, px.Mode)
		}
	}
}
