package strategy

import (
	"fmt"
	"image"
	"image/color"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// registry is the usual one.
var registry = codecs.Default(transcode.Limits{})

// dataset writes JPEG files, RGB PNG files, one with alpha, a grey one of 16 bits, a
// mask, a broken file and a label file, and returns their paths below root.
func dataset(t testing.TB, jpegs int) (root string, files []string) {
	t.Helper()
	root = t.TempDir()
	add := func(name string, err error) {
		t.Helper()
		testenv.Must(t, err)
		files = append(files, name)
	}
	draw := func(name string, img image.Image) {
		t.Helper()
		add(name, pictures.Write(filepath.Join(root, name), img))
	}
	for i := range jpegs {
		draw(fmt.Sprintf("class/%c/p%02d.jpg", 'a'+i%3, i), pictures.Photo(90+7*i%60, 70+3*i%40, uint64(i)))
	}
	photo := pictures.Photo(101, 67, 77)
	draw("rgb.png", photo)
	alpha := image.NewNRGBA(photo.Rect)
	copy(alpha.Pix, photo.Pix)
	for i := 3; i < len(alpha.Pix); i += 4 {
		alpha.Pix[i] = byte(i)
	}
	draw("alpha.png", alpha)
	deep := image.NewGray16(image.Rect(0, 0, 50, 40))
	for i := range 50 * 40 {
		deep.SetGray16(i%50, i/50, color.Gray16{Y: uint16(i * 31)})
	}
	draw("deep.png", deep)
	draw("mask.png", pictures.Mask(80, 60, 5, 3))
	add("broken.jpg", os.WriteFile(filepath.Join(root, "broken.jpg"), []byte("no picture"), 0o644))
	add("labels.json", os.WriteFile(filepath.Join(root, "labels.json"), []byte("{}"), 0o644))
	return root, files
}

func parse(t testing.TB, spec string) transcode.Pipeline {
	t.Helper()
	p, err := Parse(registry, spec)
	testenv.Must(t, err)
	return p
}

// wantEmpty wants nothing to be left in a directory.
func wantEmpty(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err == nil && name != dir {
			t.Errorf("%s was left", name)
		}
		return err
	})
	testenv.Must(t, err)
}
