// Command genset writes a small image dataset in ImageFolder's layout: classes
// as directories, most samples JPEG, a few PNG, and a label file.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/pipefs/pipefs/internal/pictures"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("genset: ")
	samples := flag.Int("samples", 64, "number of samples")
	classes := flag.Int("classes", 4, "number of classes")
	width := flag.Int("width", 500, "of a picture, in pixels")
	height := flag.Int("height", 375, "of a picture, in pixels")
	pngs := flag.Int("png-every", 8, "one sample in so many is a PNG; 0 for none")
	copies := flag.Int("copies", 1, "write each picture so many times, under other names: large trees, quickly")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: genset [flags] DIR")
	}
	if err := write(flag.Arg(0), *samples, *classes, *width, *height, *pngs, *copies); err != nil {
		log.Fatal(err)
	}
}

func write(dir string, samples, classes, width, height, pngs, copies int) error {
	labels := map[string]int{}
	for c := range classes {
		if err := os.MkdirAll(filepath.Join(dir, class(c)), 0o755); err != nil {
			return err
		}
		labels[class(c)] = c
	}
	var failed error
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan int)
	for range 2 {
		workers.Go(func() {
			for i := range next {
				if err := sample(filepath.Join(dir, class(i%classes)), i, width, height, pngs > 0 && i%pngs == pngs-1, copies); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	for i := range samples {
		next <- i
	}
	close(next)
	workers.Wait()
	if failed != nil {
		return failed
	}
	data, err := json.MarshalIndent(labels, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "labels.json"), append(data, '\n'), 0o644)
}

func class(c int) string { return fmt.Sprintf("class%02d", c) }

func sample(dir string, i, width, height int, asPNG bool, copies int) error {
	ext := ".jpg"
	if asPNG {
		ext = ".png"
	}
	file, err := pictures.Encode(ext, pictures.Photo(width, height, uint64(i)))
	for c := 0; c < copies && err == nil; c++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d_%d%s", i, c, ext)), file, 0o644)
	}
	return err
}
