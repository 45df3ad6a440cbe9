package fs_test

import (
	"log"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// A dataset is mounted and served until somebody unmounts it.
func ExampleMount() {
	d, err := source.Open("/data/imagenet", source.Options{})
	if err != nil {
		log.Fatal(err)
	}
	reg := transcode.NewRegistry(transcode.Limits{}, nil, nil) // usually codecs.New
	p, err := serve.New(serve.Options{Registry: reg, Source: d, Dataset: d})
	if err != nil {
		log.Fatal(err)
	}
	f, err := fs.New(fs.Options{Registry: reg, Server: p, Views: []string{"original"}})
	if err != nil {
		log.Fatal(err)
	}
	m, err := fs.Mount("/mnt/imagenet", f, fs.MountOptions{Source: d.Root()})
	if err != nil {
		log.Fatal(err)
	}
	m.Wait()
}
