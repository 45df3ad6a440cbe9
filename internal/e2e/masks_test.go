package e2e

import (
	"errors"
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/pictures"
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
		testenv.Must(t, pictures.Write(filepath.Join(root, "val", name+".jpg"), pictures.Photo(width, height, 1)))
		testenv.Must(t, pictures.Write(filepath.Join(root, "panoptic", name+".png"), mask))
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
