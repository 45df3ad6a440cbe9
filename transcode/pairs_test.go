package transcode_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestPairs finds the masks of pictures, and the pictures of masks.
func TestPairs(t *testing.T) {
	for _, c := range []struct{ pairs, picture, mask string }{
		{"images/**.jpg=masks/**.png", "images/train/a/1.jpg", "masks/train/a/1.png"},
		{"images/**=masks/**", "images/1.png", "masks/1.png"},
		{"images/**/*.jpg=masks/**/*_m.png", "images/1.jpg", "masks/1_m.png"},
		{"images/**/*.jpg=masks/**/*_m.png", "images/a/b/1.jpg", "masks/a/b/1_m.png"},
		{"/leftImg8bit/**_leftImg8bit.png=gtFine/**_gtFine_labelIds.png", "leftImg8bit/val/ulm/ulm_7_leftImg8bit.png", "gtFine/val/ulm/ulm_7_gtFine_labelIds.png"},
		{"*/images/*.jpg=*/labels/*.tif", "x/images/[1].jpg", "x/labels/[1].tif"},
		{"**.jpg=**_mask.png", "a\nb.jpg", "a\nb_mask.png"},
		{"**.jpg=**.png **.jpeg=**.png", "x/1.jpeg", "x/1.png"},
		{"**.png=**_mask.png", "1.png", "1_mask.png"},
		{"images/*.jpg=masks/*.png", "images/a/1.jpg", ""},
		{"images/**.jpg=masks/**.png", "xx/images/1.jpg", ""},
		{"images/**.jpg=masks/**.png", "images/1_jpg", ""},
		{"**.png=**_mask.png", "1_mask.png", ""}, // it is one itself
	} {
		var r transcode.Roles
		for _, text := range strings.Fields(c.pairs) {
			p, err := transcode.ParsePair(text)
			testenv.Must(t, err)
			r.Pairs = append(r.Pairs, p)
		}
		text, err := json.Marshal(r)
		testenv.Must(t, err)
		r = transcode.Roles{}
		testenv.Must(t, json.Unmarshal(text, &r))
		if got := r.MaskOf(c.picture); got != c.mask {
			t.Errorf("%s: the mask of %q is %q, want %q", c.pairs, c.picture, got, c.mask)
		}
		if c.mask == "" {
			continue
		}
		if !slices.Contains(r.PicturesOf(c.mask), c.picture) || r.PicturesOf(c.picture) != nil {
			t.Errorf("%s: the pictures of %q are %q, and of %q %q", c.pairs, c.mask, r.PicturesOf(c.mask), c.picture, r.PicturesOf(c.picture))
		}
		if r.Of(c.picture) != transcode.Image || r.Of(c.mask) != transcode.Mask || r.Of("other/1.gif") != transcode.Auto || !r.Given() {
			t.Errorf("%s: roles %v, %v", c.pairs, r.Of(c.picture), r.Of(c.mask))
		}
	}
	for text, want := range map[string]string{
		"images/*.jpg":                   "one = has to stand",
		"=masks/*.png":                   "one = has to stand",
		"a=*/*.jpg=a=*/*.png":            "one = has to stand",
		"images/1.jpg=masks/1.png":       "the same wildcards",
		"images/**.jpg=masks/*.png":      "the same wildcards",
		"images/*/*.jpg=masks/*.png":     "the same wildcards",
		"images/[ab]*.jpg=masks/*.png":   "only wildcards",
		"images/*.{jpg,png}=masks/*.png": "only wildcards",
		"images/*.png=/images/*.png":     "are the same",
	} {
		if _, err := transcode.ParsePair(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestFollow wants an error where a mask cannot follow its picture.
func TestFollow(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, c := range []struct {
		view        string
		width       int // of the picture
		orientation uint8
		want        string
	}{
		{"rrc32-hflip-npy", 60, 0, ""},
		{"rrc32-hflip-npy", 61, 0, "the mask has 60×40 pixels before rrc32, and its picture 61×40"},
		{"trivialaugment-npy", 61, 0, "before trivialaugment"},
		{"resize40-crop32-npy", 60, 0, ""},
		{"resize20-crop16-npy", 90, 0, "before resize20"},
		{"half-rrc32-npy", 60, 0, ""},
		{"half-rrc32-npy", 90, 0, "its picture 90×40"},
		{"rrc32-npy", 60, 3, ""},
		{"upright-rrc32-npy", 60, 3, ""},
		{"upright-rrc32-npy", 60, 6, "its picture 40×60"},
		{"bmp", 90, 0, ""}, // nothing moves
	} {
		v, err := r.ParseRandom(c.view)
		testenv.Must(t, err)
		mask := r.Plan(v, transcode.Info{Format: transcode.PNG, Mode: transcode.ModeP, Width: 60, Height: 40}, transcode.Mask)
		picture := r.Plan(v, transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: c.width, Height: 40, Orientation: c.orientation}, transcode.Image)
		if err := mask.Follow(picture); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %d columns, orientation %d: %v, want %q", c.view, c.width, c.orientation, err, c.want)
		}
	}
}
