package e2e

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	drawn "github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// panopticIDs is how many ids a mask of panopticTree has.
const panopticIDs = 24

// panopticTree is a dataset as COCO's panoptic one: photographs, and PNG files of 8-bit
// RGB whose colours are ids, R + 256 G + 65536 B.
func panopticTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	const width, height = 321, 243
	mask := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			// bands around two centres
			near := math.Min(math.Hypot(float64(x-90), float64(y-60)), math.Hypot(float64(x-250), float64(y-190)))
			id := min(int(near/6), panopticIDs-1) * 1234577 % (1 << 24)
			mask.SetNRGBA(x, y, color.NRGBA{uint8(id), uint8(id >> 8), uint8(id >> 16), 255})
		}
	}
	for _, name := range []string{"1", "2"} {
		testenv.Must(t, drawn.Write(filepath.Join(root, "val", name+".jpg"), drawn.Photo(width, height, 1)))
		testenv.Must(t, drawn.Write(filepath.Join(root, "panoptic", name+".png"), mask))
	}
	return root
}

// TestPanopticMasks reads such masks in views that would blend them: they are refused
// until somebody says what they are.
func TestPanopticMasks(t *testing.T) {
	t.Parallel()
	tree, env := panopticTree(t), testmount.Home(t)
	log := filepath.Join(t.TempDir(), "log")
	mnt := testmount.Mount(t, env, tree, "--log-file", log)
	for _, name := range []string{"1.png", "2.png", "1.png"} {
		if _, err := os.ReadFile(filepath.Join(mnt, "resize100-png/panoptic", name)); !errors.Is(err, unix.EPERM) {
			t.Errorf("resize100-png/panoptic/%s: %v, want %v", name, err, unix.EPERM)
		}
	}
	// What lists directories and passes over those that it cannot must meet the files.
	if entries, err := os.ReadDir(filepath.Join(mnt, "resize100-png/panoptic")); err != nil || len(entries) != 2 {
		t.Errorf("listed %v, %v", entries, err)
	}
	for _, name := range []string{"resize100-png/val/1.jpg", "bmp/panoptic/1.bmp", "half-bmp/val/1.jpg", "crop64-png/panoptic/1.png"} {
		decoded(t, filepath.Join(mnt, name))
	}
	const flags = `--masks 'panoptic/*.png' if these files are masks, or --images 'panoptic/*.png' if they are pictures`
	lines, err := os.ReadFile(log)
	if err != nil || strings.Count(string(lines), "directory refused") != 1 || strings.Count(string(lines), flags) != 1 {
		t.Errorf("the log does not say it once: %v\n%s", err, lines)
	}
	if stats := testmount.Command(t, env, "stats", mnt); !strings.Contains(stats, "resize100-png/panoptic") || !strings.Contains(stats, "--masks 'panoptic/*.png'") {
		t.Errorf("stats do not name it:\n%s", stats)
	}
	said := testmount.Command(t, env, "views", tree, "resize100-png")
	if said = strings.Join(strings.Fields(said), " "); !strings.Contains(said, flags) {
		t.Errorf("views does not say it:\n%s", said)
	}

	marked := testmount.Mount(t, env, tree, "--masks", "panoptic/*.png")
	for view, ext := range map[string]string{
		"resize100-png": "png", "resize100-jpeg90": "png", "resize400-crop224-jpeg90": "png", "half-bmp": "bmp", "quarter-jpeg90": "png", "jpeg90": "png",
	} {
		mask := decoded(t, filepath.Join(marked, view, "panoptic/1."+ext))
		picture := decoded(t, filepath.Join(marked, view, "val/1.jpg"))
		if mask.Width != picture.Width || mask.Height != picture.Height {
			t.Errorf("%s: a mask of %dx%d for a picture of %dx%d", view, mask.Width, mask.Height, picture.Width, picture.Height)
		}
		// a crop may lose some
		if n := ids(mask); n > panopticIDs || n < panopticIDs && !strings.Contains(view, "crop") {
			t.Errorf("%s: %d ids, want %d", view, n, panopticIDs)
		}
	}
	blended := testmount.Mount(t, env, tree, "--images", "*.png")
	if n := ids(decoded(t, filepath.Join(blended, "resize100-png/panoptic/1.png"))); n <= panopticIDs {
		t.Errorf("pictures are not blended: %d ids", n)
	}
}

// greyTree has photographs in grey and with a palette, and label maps of each mode that may be one.
func greyTree(t *testing.T) (root string, pictures, labels []string) {
	t.Helper()
	root = t.TempDir()
	put := func(list *[]string, name string, img image.Image) {
		testenv.Must(t, drawn.Write(filepath.Join(root, name+".png"), img))
		*list = append(*list, name)
	}
	for i := range 20 {
		photo := drawn.Photo(120, 90, uint64(i))
		grey, ramp, map16 := image.NewGray(photo.Rect), image.NewPaletted(photo.Rect, nil), image.NewGray16(photo.Rect)
		for v := range 256 {
			ramp.Palette = append(ramp.Palette, color.NRGBA{uint8(v), uint8(v), uint8(255 - v), 255})
		}
		draw.Draw(grey, grey.Rect, photo, image.Point{}, draw.Src)
		for j := range grey.Pix {
			grey.Pix[j] = grey.Pix[j]/2 + uint8(j%120) // of hundreds of levels
		}
		copy(ramp.Pix, grey.Pix)
		draw.Draw(map16, map16.Rect, photo, image.Point{}, draw.Src)
		ids := image.NewGray(photo.Rect)
		for j := range ids.Pix {
			ids.Pix[j] = uint8(j%120/8 + j/120/8*15) // 165 regions
		}
		put(&pictures, fmt.Sprintf("a/grey%02d", i), grey)
		put(&pictures, fmt.Sprintf("b/palette%02d", i), ramp)
		if i < 6 {
			put(&labels, fmt.Sprintf("a/ids%02d", i), ids)
			put(&labels, fmt.Sprintf("b/classes%02d", i), drawn.Mask(120, 90, 5, uint64(i)))
			put(&labels, fmt.Sprintf("b/deep%02d", i), map16)
		}
	}
	return root, pictures, labels
}

// TestGreyPictures reads grey and palette pictures in views that draw and scale: they are drawn
// and scaled. What may be a mask among them is refused by itself where all pictures have one
// shape, and nowhere shown as it is without a word.
func TestGreyPictures(t *testing.T) {
	t.Parallel()
	root, pictures, labels := greyTree(t)
	env, store := testmount.Home(t), filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", root, store)
	log := filepath.Join(t.TempDir(), "log")
	mnt := testmount.Mount(t, env, root, "--log-file", log)
	again := testmount.Mount(t, env, store)
	read := func(mnt, view, name, ext string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(mnt, view, name+ext))
		testenv.Must(t, err)
		return string(data)
	}
	const rrc = "rrc32-hflip-npy"
	for _, name := range pictures {
		shape := "(32, 32), }"
		if strings.HasPrefix(name, "b/") {
			shape = "(32, 32, 3), }"
		}
		first, next := read(mnt, ".draw/7/0/"+rrc, name, ".npy"), read(mnt, ".draw/7/1/"+rrc, name, ".npy")
		if first == next || !strings.Contains(first, shape) || !strings.Contains(next, shape) {
			t.Errorf("%s: %q… and %q…", name, first[:min(len(first), 100)], next[:min(len(next), 100)])
		}
		if other := read(again, ".draw/7/0/"+rrc, name, ".npy"); other != first {
			t.Errorf("%s: the store draws something else", name)
		}
		if px := decoded(t, filepath.Join(mnt, "resize30-bmp", name+".bmp")); px.Width != 40 || px.Height != 30 {
			t.Errorf("%s: resize30-bmp is %dx%d", name, px.Width, px.Height)
		}
	}
	for _, name := range labels {
		for _, view := range []string{".draw/7/0/" + rrc, ".draw/7/0/hflip-npy", "crop32-npy", "resize40-crop32-center-chw-npy"} {
			if _, err := os.ReadFile(filepath.Join(mnt, view, name+".npy")); !errors.Is(err, unix.EPERM) {
				t.Errorf("%s/%s: %v, want %v", view, name, err, unix.EPERM)
			}
		}
		if px := decoded(t, filepath.Join(mnt, "resize30-png", name+".png")); px.Width != 120 || px.Height != 90 {
			t.Errorf("%s: resize30-png is %dx%d", name, px.Width, px.Height)
		}
	}
	for _, name := range append(pictures, labels...) {
		if data := read(mnt, ".draw/7/0/rgb-"+rrc, name, ".npy"); !strings.Contains(data, "(32, 32, 3), }") {
			t.Errorf("%s in rgb-%s: %q", name, rrc, data[:100])
		}
	}
	lines, err := os.ReadFile(log)
	if n := strings.Count(string(lines), "sample refused"); err != nil || n != serve.MostTold ||
		!strings.Contains(string(lines), "Say --images 'a/*.png' if these files are pictures, --masks 'a/*.png' if they are masks, or read rgb-"+rrc) {
		t.Errorf("the log tells of %d samples, %v:\n%s", n, err, lines)
	}
	if stats := testmount.Command(t, env, "stats", mnt); !strings.Contains(strings.Join(strings.Fields(stats), " "), fmt.Sprintf("single samples refused (see the log) │ %d", 4*len(labels))) {
		t.Errorf("stats do not count them:\n%s", stats)
	}
	// A batch with such a sample fails, or has it black; one of other samples does not.
	if _, err := os.ReadFile(filepath.Join(mnt, ".epoch/7/0/1/0/58", rrc, "000000.npy")); !errors.Is(err, unix.EIO) {
		t.Errorf("a batch of all: %v", err)
	}
	reply, err := control.Find(mnt)
	testenv.Must(t, err)
	said, err := reply.Do(t.Context(), control.Request{Op: control.OpView, View: ".draw/7/0/" + rrc})
	if err != nil || !strings.Contains(said.Note, "may be masks") || !strings.Contains(said.Note, "read rgb-"+rrc) {
		t.Errorf("the mount says of the view: %+v, %v", said, err)
	}
	for _, view := range []string{"rgb-" + rrc, "bmp", "original"} {
		if said, err := reply.Do(t.Context(), control.Request{Op: control.OpView, View: view}); err != nil || said.Note != "" {
			t.Errorf("the mount says of %s: %+v, %v", view, said, err)
		}
	}
	// A view that drops the EXIF orientation says so, too.
	write(t, root, testenv.Picture(t, "exif.jpg"), "turned/1.jpg")
	for view, want := range map[string]string{"rgb-bmp-own": "upright-rgb-bmp-own", "upright-rgb-bmp": "", "original": ""} {
		testenv.Eventually(t, func() error {
			said, err := reply.Do(t.Context(), control.Request{Op: control.OpView, View: view})
			if (said.Note != "") != (want != "") || !strings.HasSuffix(said.Note, want) {
				return fmt.Errorf("the mount says of %s: %+v, %w", view, said, err)
			}
			return nil
		})
	}
	marked := testmount.Mount(t, env, root, "--images", "*.png")
	if px := read(marked, "crop32-npy", labels[0], ".npy"); !strings.Contains(px, "(32, 32), }") {
		t.Errorf("what is said to be a picture is not cut: %q", px[:100])
	}
}

// decoded is the picture in a file, whatever its name says.
func decoded(t *testing.T, path string) *transcode.Pixels {
	t.Helper()
	data, err := os.ReadFile(path)
	var px *transcode.Pixels
	if err == nil {
		px, err = codecs.Default(transcode.Limits{}).Decode(t.Context(), data)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return px
}

// ids is how many colours a picture has.
func ids(px *transcode.Pixels) int {
	seen := map[[3]byte]bool{}
	for i := 0; i+3 <= len(px.Pix); i += 3 {
		seen[[3]byte(px.Pix[i:])] = true
	}
	return len(seen)
}
