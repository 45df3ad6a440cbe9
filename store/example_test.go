package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// letters is a dataset of two files.
type letters struct{}

func (letters) Walk(context.Context) iter.Seq2[store.SourceFile, error] {
	return func(yield func(store.SourceFile, error) bool) {
		for i, name := range []string{"a.jpg", "b.jpg"} {
			id := store.Identity{Size: 6, Version: [24]byte{byte(i + 1)}}
			if !yield(store.SourceFile{Path: name, Kind: store.File, Mode: 0o644, Identity: id}, nil) {
				return
			}
		}
	}
}

func (letters) Read(_ context.Context, path string) ([]byte, store.Identity, error) {
	switch path {
	case "a.jpg":
		return []byte("aaabbb"), store.Identity{Size: 6, Version: [24]byte{1}}, nil
	case "b.jpg":
		return []byte("cccddd"), store.Identity{Size: 6, Version: [24]byte{2}}, nil
	}
	return nil, store.Identity{}, fs.ErrNotExist
}

func (l letters) Copy(ctx context.Context, path string, w io.Writer) (store.Identity, error) {
	data, id, err := l.Read(ctx, path)
	if err == nil {
		_, err = w.Write(data)
	}
	return id, err
}

// halves makes one representation: two scans and an end marker.
type halves struct{}

func (halves) Encode(_ context.Context, _ string, data []byte) (store.Encoded, error) {
	split := transcode.Split{Data: data, Ends: []int{3, 6}, Levels: []int{1, 2}, Tail: []byte(".")}
	return store.Encoded{Representations: []store.EncodedRepresentation{{Key: "scan@1", Split: split}}}, nil
}

func (halves) Current(s *store.Sample) bool { return s.Representation("scan@1") != nil }

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	dir = filepath.Join(dir, "store")
	report, err := store.Pack(context.Background(), dir, letters{}, halves{}, store.PackOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println("packed", report.Files)

	s, err := store.Open(dir, store.Options{})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	sample, err := s.Lookup("b.jpg")
	if err != nil {
		panic(err)
	}
	for level := 1; level <= 2; level++ {
		r, err := s.Reader(*sample.Representation("scan@1"), level)
		if err != nil {
			panic(err)
		}
		b := make([]byte, r.Size())
		if _, err := r.ReadAt(b, 0); err != nil {
			panic(err)
		}
		fmt.Printf("level %d: %s\n", level, b)
	}
	_, err = s.Lookup("c.jpg")
	fmt.Println("c.jpg found:", !errors.Is(err, store.ErrNotFound))
	// Output:
	// packed 2
	// level 1: ccc.
	// level 2: cccddd.
	// c.jpg found: false
}
