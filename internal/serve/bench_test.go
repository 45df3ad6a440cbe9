package serve

import (
	"bytes"
	"fmt"
	"image/jpeg"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// BenchmarkFirstRead is what a mount asks for when a file is read for the first
// time, apart from the kernel: its attributes, its size, and its bytes. The store
// holds scans; original/ of a dataset with files of the same size is for
// comparison.
func BenchmarkFirstRead(b *testing.B) {
	const count = 2000
	root := b.TempDir()
	var file bytes.Buffer
	testenv.Must(b, jpeg.Encode(&file, pictures.Photo(200, 150, 1), nil))
	src := file.Bytes()
	for i := range count {
		testenv.Must(b, os.WriteFile(filepath.Join(root, fmt.Sprintf("%04d.jpg", i)), src, 0o644))
	}
	d, err := source.Open(root, source.Options{})
	testenv.Must(b, err)
	defer d.Close()
	r := codecs.Default(transcode.Limits{})
	dir := filepath.Join(b.TempDir(), "store")
	pack := pack.Dataset{Registry: r, Dir: d}
	if _, err := store.Pack(b.Context(), dir, pack, pack, store.PackOptions{}); err != nil {
		b.Fatal(err)
	}
	s, err := store.Open(dir, store.Options{})
	testenv.Must(b, err)
	defer s.Close()
	for _, c := range []struct {
		name, spec string
		o          Options
	}{
		{"dataset/original", "original", Options{Registry: r, Source: d, Dataset: d}},
		{"store/scan5", "scan5", Options{Registry: r, Source: StoreTree(s), Store: s}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, err := New(c.o)
			testenv.Must(b, err)
			defer p.Close()
			v, err := r.Parse(c.spec)
			testenv.Must(b, err)
			buf := make([]byte, len(src)+1)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				name := fmt.Sprintf("%04d.jpg", i%count)
				attr, err := p.Stat(name, false)
				testenv.Must(b, err)
				f := File{Path: name, Identity: attr.Identity}
				h, err := p.Resolve(b.Context(), Key(i), f, v, Sized)
				testenv.Must(b, err)
				content, err := h.Open(b.Context())
				testenv.Must(b, err)
				_, _ = content.ReadAt(buf, 0)
				content.Release()
				h.Drop()
				i++
			}
		})
	}
}
