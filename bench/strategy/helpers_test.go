package strategy

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
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
	write := func(name string, encode func(*bytes.Buffer) error) {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	asPNG := func(img image.Image) func(*bytes.Buffer) error {
		return func(b *bytes.Buffer) error { return png.Encode(b, img) }
	}
	for i := range jpegs {
		img := pictures.Photo(90+7*i%60, 70+3*i%40, uint64(i))
		write(filepath.Join("class", string(rune('a'+i%3)), "p"+string(rune('0'+i/10))+string(rune('0'+i%10))+".jpg"), func(b *bytes.Buffer) error {
			return jpeg.Encode(b, img, &jpeg.Options{Quality: 90})
		})
	}
	photo := pictures.Photo(101, 67, 77)
	write("rgb.png", asPNG(photo))
	alpha := image.NewNRGBA(photo.Rect)
	copy(alpha.Pix, photo.Pix)
	for i := 3; i < len(alpha.Pix); i += 4 {
		alpha.Pix[i] = byte(i)
	}
	write("alpha.png", asPNG(alpha))
	deep := image.NewGray16(image.Rect(0, 0, 50, 40))
	for i := range 50 * 40 {
		deep.SetGray16(i%50, i/50, color.Gray16{Y: uint16(i * 31)})
	}
	write("deep.png", asPNG(deep))
	write("mask.png", asPNG(pictures.Mask(80, 60, 5, 3)))
	write("broken.jpg", func(b *bytes.Buffer) error { b.WriteString("no picture"); return nil })
	write("labels.json", func(b *bytes.Buffer) error { b.WriteString("{}"); return nil })
	return root, files
}

func parse(t testing.TB, spec string) transcode.Pipeline {
	t.Helper()
	p, err := Parse(registry, spec)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
}
