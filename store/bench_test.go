package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// benchSource is a dataset of n files that are all the same.
type benchSource struct {
	n    int
	data []byte
}

func (s benchSource) path(i int) string {
	return fmt.Sprintf("train/n%08d/ILSVRC2012_train_%08d.jpg", i/1000, i)
}

func (s benchSource) id(i int) Identity {
	return ident(uint64(i), int64(len(s.data)), 1_700_000_000_000_000_000)
}

func (s benchSource) Walk(context.Context) iter.Seq2[SourceFile, error] {
	return func(yield func(SourceFile, error) bool) {
		yield(SourceFile{Kind: Dir}, nil)
		yield(SourceFile{Path: "train", Kind: Dir}, nil)
		for i := range s.n {
			if i%1000 == 0 && !yield(SourceFile{Path: fmt.Sprintf("train/n%08d", i/1000), Kind: Dir}, nil) {
				return
			}
			if !yield(SourceFile{Path: s.path(i), Kind: File, Mode: 0o644, Identity: s.id(i)}, nil) {
				return
			}
		}
	}
}

func (s benchSource) Read(_ context.Context, path string) ([]byte, Identity, error) {
	var dir, i int
	if _, err := fmt.Sscanf(path, "train/n%d/ILSVRC2012_train_%d.jpg", &dir, &i); err != nil {
		return nil, Identity{}, err
	}
	return s.data, s.id(i), nil
}

func (s benchSource) Copy(context.Context, string, io.Writer) (Identity, error) {
	return Identity{}, errors.ErrUnsupported
}

// scansEncoder cuts every file into ten scans.
type scansEncoder struct{}

func (scansEncoder) Encode(_ context.Context, _ string, data []byte) (Encoded, error) {
	s := transcode.Split{Data: data, Tail: []byte{0xff, 0xd9}}
	for i := 1; i <= 10; i++ {
		s.Ends = append(s.Ends, len(data)*i/10)
		s.Levels = append(s.Levels, i)
	}
	return Encoded{Info: jpegInfo, Representations: []EncodedRepresentation{{Key: "scan@jpeg1", Split: s}}}, nil
}

func (scansEncoder) Current(*Sample) bool { return true }

// wholeEncoder keeps every file in one part, as raw pixels are kept.
type wholeEncoder struct{ scansEncoder }

func (wholeEncoder) Encode(_ context.Context, _ string, data []byte) (Encoded, error) {
	return Encoded{Info: jpegInfo, Representations: []EncodedRepresentation{{Key: "bmp@1", Split: transcode.Split{Data: data}}}}, nil
}

func benchPack(b *testing.B, dir string, src Source, enc Encoder) {
	b.Helper()
	if _, err := Pack(context.Background(), dir, src, enc, PackOptions{Logger: quiet}); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkReadAt(b *testing.B) {
	for _, c := range []struct {
		name       string
		size, step int
		enc        Encoder
	}{
		{"bmp600K/whole", 600_000, 600_000, wholeEncoder{}},
		{"bmp600K/128K", 600_000, 128 << 10, wholeEncoder{}},
		{"bmp600K/4K", 600_000, 4 << 10, wholeEncoder{}},
		{"scans110K/whole", 110_000, 110_002, scansEncoder{}},
		{"scans110K/128K", 110_000, 128 << 10, scansEncoder{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "store")
			src := benchSource{200, noise(random(b), c.size)}
			benchPack(b, dir, src, c.enc)
			s, err := Open(dir, Options{Logger: quiet})
			testenv.Must(b, err)
			defer s.Close()
			var readers []*Reader
			for i := range src.n {
				got, err := s.Lookup(src.path(i))
				testenv.Must(b, err)
				r, err := s.Reader(got.Representations[0], 0)
				testenv.Must(b, err)
				readers = append(readers, r)
			}
			buf := make([]byte, c.step)
			b.SetBytes(readers[0].Size())
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r := readers[i%len(readers)]
				i++
				for off := int64(0); off < r.Size(); off += int64(c.step) {
					p := buf[:min(int64(c.step), r.Size()-off)]
					if _, err := r.ReadAt(p, off); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
