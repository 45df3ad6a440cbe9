package loader

import (
	"context"
	"errors"
	"image"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestSeedIsTheOrder(t *testing.T) {
	_, names := tree(t, 16)
	order := func(seed uint64) []string { return shuffled(Job{Dir: "d", Files: names, Seed: seed}) }
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

// TestCannot: which views each loader can read, what is said of one that it cannot, and what to write instead.
func TestCannot(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	const turns = " drops the EXIF orientation of 2 samples, by which the loader turns pictures; write upright-"
	jpg, jpeg, mixed := []string{".jpg"}, []string{".jpeg"}, []string{".jpg", ".png", ".webp"}
	for _, test := range []struct {
		reader, view string
		extensions   []string
		turned       int
		want         string // in the answer; empty: it can
	}{
		{"hf", "bmp-own", jpg, 2, "bmp-own" + turns + "bmp-own"}, {"opencv", "resize256-ppm", jpg, 2, "resize256-ppm" + turns + "resize256-ppm"},
		{"yolo", "stored-bmp", jpg, 2, "stored-bmp" + turns + "bmp"}, {"dali", "npy", jpg, 2, "DALI's file reader cannot read the NPY files of npy: it decodes JPEG, PNG, BMP, PNM, TIFF and WebP"},
		{"hf", "upright-bmp-own", jpg, 2, ""}, {"hf", "png", jpg, 2, ""}, {"hf", "scan5", jpg, 2, ""}, {"hf", "resize256-jpeg90", jpg, 2, ""},
		{"torch", "bmp-own", jpg, 2, ""}, {"keras", "bmp-own", jpg, 2, ""}, {"", "bmp-own", jpg, 2, ""},
		{"", "npy", jpg, 0, ""},
		{"torch", "bmp", jpeg, 0, ""}, {"torch", "ppm", jpeg, 0, ""}, {"torch", "bmp-own", mixed, 0, ""},
		{"torch", "npy", jpeg, 0, "torchvision's ImageFolder cannot read the NPY files of npy"},
		{"torch", "l3", jpeg, 0, "the L3 files of l3"},
		{"timm", "bmp", jpeg, 0, "timm does not find the .bmp files of bmp: it goes by the extensions .png, .jpg, .jpeg; write bmp-own"},
		{"timm", "bmp-own", jpeg, 0, ""}, {"timm", "ppm-own", jpeg, 0, ""}, {"timm", "png", jpeg, 0, ""}, {"timm", "resize256-jpeg90", jpeg, 0, ""},
		{"timm", "bmp-own", mixed, 0, "does not find the .webp files of bmp-own"},
		{"keras", "bmp", jpeg, 0, ""}, {"keras", "bmp-own", jpeg, 0, ""},
		{"keras", "ppm-own", jpeg, 0, "cannot read the PNM files of ppm-own: it decodes JPEG, PNG, BMP and GIF"},
		{"keras", "bmp-own", mixed, 0, "does not find the .webp"}, {"keras", "bmp", mixed, 0, ""},
		{"yolo", "ppm-own", jpeg, 0, "Ultralytics cannot read the PNM files of ppm-own: it decodes JPEG, PNG, BMP, TIFF and WebP"}, {"yolo", "bmp-own", mixed, 0, ""},
		{"dali", "ppm", jpeg, 0, ""}, {"dali", "bmp-own", jpeg, 0, ""},
		{"opencv", "ppm", jpeg, 0, ""}, {"opencv", "npy", jpeg, 0, "OpenCV's imread cannot read the NPY"},
		{"hf", "ppm", jpeg, 0, ""}, {"hf", "bmp", mixed, 0, ""}, {"hf", "ppm-own", jpg, 0, ""},
		{"torchvision-io", "bmp-own", jpeg, 0, "torchvision.io or TorchCodec cannot read the BMP files of bmp-own: it decodes JPEG and PNG"},
		{"torchvision-io", "stored-bmp", jpeg, 0, "cannot read the BMP files of stored-bmp"},
		{"torchvision-io", "resize256-jpeg90-own", mixed, 0, ""}, {"torchvision-io", "png", jpeg, 0, ""},
	} {
		p, err := r.Parse(test.view)
		testenv.Must(t, err)
		if got := NewReading(test.reader, test.extensions, test.turned).Cannot(p); test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s, %s of %v: %q, want %q", test.reader, test.view, test.extensions, got, test.want)
		}
	}
	// What needs no decoder of its own everyone reads.
	for _, reader := range Readers {
		for _, view := range []string{transcode.Original, "scan5", "baseline", "resize256-png-own"} {
			p, err := r.Parse(view)
			testenv.Must(t, err)
			if why := reader.Reads(p, jpeg); why != "" {
				t.Errorf("%s, %s: %s", reader.Name, view, why)
			}
		}
	}
	if got := Extensions([]string{"a/b.JPEG", "c.png", "d.jpeg", "e"}); !slices.Equal(got, []string{".jpeg", ".png", ""}) {
		t.Error(got)
	}
	for view, want := range map[string]string{
		"stored-bmp": "",
		"stored-ppm": "Keras' image_dataset_from_directory cannot read the PNM files of stored-ppm: it decodes JPEG, PNG, BMP and GIF; name the loader with --for, or the view with --views",
	} {
		if got := NewReading("", []string{".webp"}, 0).Uncommon(r, view); got != want {
			t.Errorf("%s: %q, want %q", view, got, want)
		}
		if got := NewReading("torch", nil, 0).Uncommon(r, view); got != "" {
			t.Errorf("for torch, %s: %q", view, got)
		}
	}
	views := []string{"original", "bmp-own"}
	const usual = "the views are for loaders that read all of them: torch, timm, keras, yolo, dali, hf, opencv; not for torchvision-io (--for changes that)"
	if got := NewReading("", []string{".jpg"}, 0).Assumed(r, views); got != usual {
		t.Error(got)
	}
	if got := NewReading("keras", []string{".jpg"}, 0).Assumed(r, views); got != "the views are some that Keras' image_dataset_from_directory reads (--for keras)" {
		t.Error(got)
	}
	if got := NewReading("", nil, 0).Assumed(r, views[:1]); got != "" {
		t.Error(got)
	}
}

func TestEvenly(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	for n, want := range map[int][]string{2: {"a", "d"}, 3: {"a", "c", "e"}, 6: names, 9: names} {
		if diff := cmp.Diff(want, Evenly(names, n)); diff != "" {
			t.Errorf("%d: %s", n, diff)
		}
	}
}

// pillow runs a line of Python with an interpreter that has Pillow.
func pillow(t *testing.T, code string, args ...string) string {
	t.Helper()
	python, err := findPython(t.Context(), "", "PIL")
	if err != nil {
		t.Fatalf("%v (Debian, Ubuntu: python3-torchvision)", err)
	}
	out, err := exec.Command(python, append([]string{"-c", code}, args...)...).Output()
	if err != nil {
		t.Fatalf("%s: %v", python, err)
	}
	return string(out)
}

func TestParseTicks(t *testing.T) {
	const stat = "cpu  900 90 900 9000 90 9 9 90 900 0\n" +
		"cpu0 100 10 200 1000 50 1 2 37 70 0\n" +
		"cpu1 500 0 100 400 0 0 0 0 0 0\n" +
		"cpu12 1 1 1 1 1 1 1 1 1 1\n" +
		"intr 12345 6 7\nctxt 1\n"
	only := func(cpus ...int) func(int) bool {
		return func(cpu int) bool {
			for _, c := range cpus {
				if c == cpu {
					return true
				}
			}
			return false
		}
	}
	for _, test := range []struct {
		stat      string
		mine      func(int) bool
		busy, all float64
		known     bool
	}{
		{stat, only(0), 3.5, 14, true},
		{stat, only(0, 1), 9.5, 24, true},
		{stat, only(5), 0, 0, false},
		{"cpu0 0 0 0 0 0 0 0 0 0 0\n", only(0), 0, 0, false}, // a sandbox that does not tell
		{"cpu0 1 2 x 4 5 6 7 8 9 10\n", only(0), 0, 0, false},
		{"cpu0 1 2 3\n", only(0), 0, 0, false},
		{"", only(0), 0, 0, false},
	} {
		got, known := parseTicks([]byte(test.stat), test.mine)
		if math.Abs(got.busy-test.busy) > 1e-9 || math.Abs(got.all-test.all) > 1e-9 || known != test.known {
			t.Errorf("%q: %+v, %v", test.stat, got, known)
		}
	}
}

// TestOthers: a process that nobody measured is seen, and is not if it was.
func TestOthers(t *testing.T) {
	if _, known := readTicks(); !known {
		t.Skip("this system does not tell what its processors do")
	}
	watch := Watch()
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	testenv.Must(t, cmd.Run())
	burnt := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	unknown, known := watch.Since(0), watch.Since(burnt)
	if unknown.Busy <= 0 || unknown.Busy > 1 || unknown.Others <= 0 {
		t.Errorf("%+v, after %.2f s of another process", unknown, burnt)
	}
	if known.Others >= unknown.Others {
		t.Errorf("others are %+v with and %+v without what another process was measured to use", known, unknown)
	}
}
