package pictures

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
)

// Encode makes the file of a picture that its name says: JPEG of quality 90 for .jpg, else PNG.
func Encode(name string, m image.Image) ([]byte, error) {
	var b bytes.Buffer
	if filepath.Ext(name) == ".jpg" {
		// The encoder is several times as fast with RGBA, which is the same for opaque pixels.
		if n, ok := m.(*image.NRGBA); ok && n.Opaque() {
			m = &image.RGBA{Pix: n.Pix, Stride: n.Stride, Rect: n.Rect}
		}
		err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 90})
		return b.Bytes(), err
	}
	err := png.Encode(&b, m)
	return b.Bytes(), err
}

// Write writes what Encode makes, and the directories that it lies in.
func Write(path string, m image.Image) error {
	b, err := Encode(path, m)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	return err
}
