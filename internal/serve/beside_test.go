package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

const (
	voc      = "<annotation><object><bndbox><xmin>1</xmin></bndbox></object></annotation>"
	yolo     = "0 0.5 0.5 0.25 0.25\n"
	coco     = `{"images":[{"id":1,"file_name":"1.jpg"}],"annotations":[{"image_id":1,"bbox":[1,2,3,4]}]}`
	labelme  = `{"shapes":[{"label":"cat","points":[[1,2],[3,4]]}]}`
	captions = `{"images":[{"id":1,"file_name":"1.jpg"}],"annotations":[{"image_id":1,"caption":"a cat"}]}`
)

// TestRefusesRandom says beside which pictures a random view finds what would not fit. Each
// tree has the pictures 0.jpg to 2.jpg in one directory, and one more file.
func TestRefusesRandom(t *testing.T) {
	v, err := registry.ParseRandom("rrc16-hflip-npy")
	testenv.Must(t, err)
	for _, c := range []struct {
		dir, file, text string // text "mask" and "photo" are pictures
		refused         bool
	}{
		{"", "1.xml", voc, true},
		{"", "1.txt", yolo, true},
		{"", "1.json", labelme, true},
		{"", "1.png", "mask", true},
		{"photos", "photos/1_mask.png", "mask", true},
		{"train/images", "train/labels/1.txt", yolo, true},
		{"images/train", "labels/train/1.txt", yolo, true},
		{"VOC2012/JPEGImages", "VOC2012/Annotations/1.xml", voc, true},
		{"VOC2012/JPEGImages", "VOC2012/SegmentationClass/1.png", "mask", true},
		{"pets/images", "pets/annotations/xmls/1.xml", voc, true},
		{"ds/img", "ds/ann/1.jpg.json", labelme, true},
		{"scenes/images/a/b", "scenes/masks/a/b/1.png", "mask", true},
		{"train2017", "annotations/instances_train2017.json", coco, true},
		{"train", "train/_annotations.coco.json", coco, true},
		{"train", "boxes.json", coco, true},
		{"images", "masks/1.png", "colours", true},

		{"train/cat", "train/dog/1.xml", voc, false},
		{"train/cat", "labels.json", `{"cat/1.jpg": 3}`, false},
		{"train", "annotations/captions_train2017.json", captions, false},
		{"val2017", "annotations/instances_train2017.json", strings.ReplaceAll(coco, "1.jpg", "9.jpg"), false},
		{"train", "train/1.txt", "a photograph of a cat\n", false},
		{"", "1.xml", "<annotation><caption>a cat</caption></annotation>", false},
		{"train/cat", "train/masks/1.png", "photo", false}, // a class of that name
		{"train/cat", "train/masks/1.jpg", "photo", false},
		{"train/cat", "train/dog/1.png", "mask", false},
		{"train/cat", "train/cat/9.xml", voc, false}, // of no picture
	} {
		t.Run(strings.ReplaceAll(filepath.Join(c.dir, c.file), "/", "|"), func(t *testing.T) {
			root := t.TempDir()
			for i := range 3 {
				put(t, root, filepath.Join(c.dir, fmt.Sprintf("%d.jpg", i)), pictures.Photo(60, 40, uint64(i)))
			}
			switch c.text {
			case "mask":
				put(t, root, c.file, pictures.Mask(60, 40, 5, 1))
			case "colours":
				put(t, root, c.file, colours(1))
			case "photo":
				put(t, root, c.file, pictures.Photo(60, 40, 7))
			default:
				testenv.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, c.file)), 0o755))
				testenv.Must(t, os.WriteFile(filepath.Join(root, c.file), []byte(c.text), 0o644))
			}
			f := newFixture(t, root, nil)
			sample := filepath.Join(c.dir, "2.jpg")
			_, err := f.Resolve(t.Context(), 1, f.file(t, sample), v.In(1, 2))
			r := (*Refusal)(nil)
			if errors.As(err, &r) != c.refused || err != nil && r == nil {
				t.Fatalf("%v", err)
			}
			if r != nil && (r.Beside != c.file || r.Dir != c.dir || r.Example != filepath.Join(c.dir, "1.jpg")) {
				t.Errorf("%+v", r)
			}
			if err := f.Refuses(c.dir, v); errors.Is(err, ErrRefused) != c.refused {
				t.Errorf("Refuses: %v", err)
			}
			// A view that draws nothing, and who wants it all the same
			if _, err := f.Resolve(t.Context(), 2, f.file(t, sample), view(t, "resize16-npy")); err != nil {
				t.Error(err)
			}
			f = newFixture(t, root, func(o *Options) { o.ForceRandom = true })
			if _, err := f.Resolve(t.Context(), 1, f.file(t, sample), v.In(1, 2)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRefusesRandomMasks: samples that are marked as masks get no draw of their own, nor those that a step does not take.
func TestRefusesRandomMasks(t *testing.T) {
	v, err := registry.ParseRandom("rrc16-hflip-npy")
	testenv.Must(t, err)
	root := t.TempDir()
	put(t, root, "a/1.jpg", pictures.Photo(60, 40, 1))
	put(t, root, "b/x.png", pictures.Mask(60, 40, 5, 1))
	f := newFixture(t, root, func(o *Options) { o.Roles = transcode.Roles{Masks: []string{"b/*"}} })
	if _, err := f.Resolve(t.Context(), 1, f.file(t, "b/x.png"), v.In(1, 2)); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if _, err := f.Resolve(t.Context(), 2, f.file(t, "a/1.jpg"), v.In(1, 2)); err != nil {
		t.Error(err)
	}
	v, err = registry.ParseRandom("rrc16-trivialaugment-npy")
	testenv.Must(t, err)
	clear := pictures.Photo(60, 40, 1)
	clear.Pix[3] = 0
	put(t, root, "a/2.png", clear)
	if _, err := f.Resolve(t.Context(), 3, f.file(t, "a/2.png"), v.In(1, 2)); !IsUnfit(err) || !strings.Contains(err.Error(), "of mode RGBA, which trivialaugment does not take") {
		t.Error(err)
	}
}

// TestInstead: each of a few samples is tried once, in an order that all draws of an epoch share.
func TestInstead(t *testing.T) {
	var want []int
	for n := range 6 {
		order := slices.Collect(Instead(transcode.Draw{Seed: 7, Epoch: 3, Path: "a"}, n))
		again := slices.Collect(Instead(transcode.Draw{Seed: 7, Epoch: 3, Path: "a", Repeat: 2}, n))
		if !slices.Equal(slices.Sorted(slices.Values(order)), want) || !slices.Equal(order, again) {
			t.Errorf("of %d samples %v are tried, and for another draw %v", n, order, again)
		}
		want = append(want, n)
	}
}

// TestReplaceable says why no other sample takes the place of the first file; "" is that one may.
func TestReplaceable(t *testing.T) {
	for files, why := range map[string]string{
		"cat/a/1.jpg dog/1.jpg":                        "",
		"cat/1.jpg dog/1.jpg cat/2.txt labels.csv":     "",
		"a/cat/2.jpg a/dog/1.jpg captions.json":        "",
		"1.jpg 2.jpg":                                  `"/" is not one of several directories of classes`,
		"train/cat/1.jpg train/cat/2.jpg":              `"/train/cat" is not one of several directories of classes`,
		"train2017/1.jpg val2017/1.jpg":                "is not one of several",
		"cat/1.jpg masks/2.jpg":                        "is not one of several",
		"cat/1.jpg dog/1.jpg cat/0/1.jpg cat/1.txt":    "cat/1.txt is the target of cat/1.jpg alone",
		"cat/1.jpg dog/1.jpg cat/1.jpg.csv":            "cat/1.jpg.csv is the target of cat/1.jpg alone",
		"cat/1.jpg dog/1.jpg metadata.csv":             "metadata.csv has a line for each sample",
		"cat/1.jpg dog/1.jpg cat/metadata.jsonl":       "cat/metadata.jsonl has a line for each sample",
		"a/cat/1.jpg a/dog/1.jpg a/cat/captions2.json": "a/cat/captions2.json has targets of a/cat/1.jpg",
	} {
		root := t.TempDir()
		for name := range strings.FieldsSeq(files) {
			testenv.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
			testenv.Must(t, os.WriteFile(filepath.Join(root, name), []byte(map[string]string{".json": captions}[filepath.Ext(name)]), 0o644))
		}
		if err := newFixture(t, root, nil).Replaceable(strings.Fields(files)[0]); (err == nil) != (why == "") || !strings.Contains(fmt.Sprint(err), why) {
			t.Errorf("%s: %v", files, err)
		}
	}
}

// TestPairs: a mask follows the first of its pictures that is there, in views that move or mix pixels.
func TestPairs(t *testing.T) {
	root := t.TempDir()
	for name, width := range map[string]int{"images/1.jpg": 60, "photos/1.jpg": 60, "photos/2.jpg": 60, "photos/4.jpg": 50} {
		put(t, root, name, pictures.Photo(width, 40, 1))
	}
	images, err := transcode.ParsePair("images/**.jpg=masks/**.png")
	testenv.Must(t, err)
	photos, err := transcode.ParsePair("photos/**.jpg=masks/**.png")
	testenv.Must(t, err)
	f := newFixture(t, root, func(o *Options) { o.Roles.Pairs = []transcode.Pair{images, photos} })
	for i, why := range []string{1: "", 2: "", 3: "there is no picture images/3.jpg", 4: "it is the mask of photos/4.jpg, and cannot follow it: "} {
		name := fmt.Sprintf("masks/%d.png", i)
		put(t, root, name, pictures.Mask(60, 40, 5, 1))
		for _, spec := range []string{"bmp", "resize16-npy"} {
			if _, err := f.Resolve(t.Context(), 1, f.file(t, name), view(t, spec)); i > 0 && ((err == nil) != (spec == "bmp" || why == "") || err != nil && !strings.Contains(err.Error(), why)) {
				t.Errorf("%s in %s: %v", name, spec, err)
			}
		}
		with := "masks/1.png is the mask of photos/1.jpg and of images/1.jpg"
		if err := f.PairedWith(name, fmt.Sprintf("photos/%d.jpg", i)); strings.Contains(fmt.Sprint(err), with) != (i == 1) || (err == nil) != (i == 2 || i == 4) {
			t.Errorf("%s: %v", name, err)
		}
	}
	testenv.Must(t, errors.Join(f.PairedWith("masks/1.png", "images/1.jpg"), f.PairedWith("photos/1.jpg", "")))
}
