package pictures

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Dataset is a small dataset in ImageFolder's layout: classes as directories, most samples
// JPEG, a few PNG, and a label file.
type Dataset struct{ samples, classes, width, height, pngs, copies int }

// Flags defines the flags that describe a dataset.
func Flags(f *flag.FlagSet) *Dataset {
	d := new(Dataset)
	f.IntVar(&d.samples, "samples", 64, "number of samples")
	f.IntVar(&d.classes, "classes", 4, "number of classes")
	f.IntVar(&d.width, "width", 500, "of a picture, in pixels")
	f.IntVar(&d.height, "height", 375, "of a picture, in pixels")
	f.IntVar(&d.pngs, "png-every", 8, "one sample in so many is a PNG; 0 for none")
	f.IntVar(&d.copies, "copies", 1, "write each picture so many times, under other names: large trees, quickly")
	return d
}

// Write writes the dataset into a directory.
func (d *Dataset) Write(dir string) error {
	labels := map[string]int{}
	for c := range d.classes {
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
				if err := d.sample(filepath.Join(dir, class(i%d.classes)), i); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	for i := range d.samples {
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

func (d *Dataset) sample(dir string, i int) error {
	ext := ".jpg"
	if d.pngs > 0 && i%d.pngs == d.pngs-1 {
		ext = ".png"
	}
	file, err := Encode(ext, Photo(d.width, d.height, uint64(i)))
	for c := 0; c < d.copies && err == nil; c++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d_%d%s", i, c, ext)), file, 0o644)
	}
	return err
}
