package loader

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// Work is what a loader does to each picture after it is decoded; the batches are uint8,
// (height, width, channels). Without transforms the files are what the training gets.
type Work struct {
	Transforms []Transform `json:"transforms"`
}

// Transform is one of torchvision.transforms, with the arguments of its constructor.
type Transform struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
	text string
}

// String is as one writes it in Python.
func (t Transform) String() string { return t.text }

// String names the transforms as one writes them in Python.
func (w Work) String() string {
	words := make([]string, len(w.Transforms))
	for i, t := range w.Transforms {
		words[i] = t.String()
	}
	return strings.Join(words, ", ")
}

// WorkOf is what a loader of plain files does for the same pixels as a view has. key is the
// same for views that need the same work. ok is false for steps that torchvision does not
// have.
func WorkOf(p transcode.Pipeline) (w Work, key string, ok bool) {
	var words []string
	w.Transforms = []Transform{}
	for _, s := range p.Steps() {
		t, is := transformOf(s)
		switch {
		case is:
			w.Transforms = append(w.Transforms, t)
			words = append(words, s.String())
		case slices.Contains(elsewhere, s.Kind.Name), s.Kind.To == transcode.File, s.Kind.From&transcode.Source != 0:
		default:
			return Work{}, "", false
		}
	}
	return w, strings.Join(words, "-"), true
}

// elsewhere are steps that change no pixels.
var elsewhere = []string{"decode", "chw"}

// transformOf is the transform that a step is.
func transformOf(s transcode.Step) (t Transform, ok bool) {
	t.Args = map[string]any{}
	switch s.Kind.Name {
	case "rrc":
		t.Name, t.Args["size"] = "RandomResizedCrop", s.Arg
	case "randcrop":
		// What is missing at the edges is 0, as in the view.
		t.Name, t.Args["size"], t.Args["pad_if_needed"] = "RandomCrop", s.Arg, true
	case "pad":
		t.Name, t.Args["padding"] = "Pad", s.Arg
	case "resize":
		t.Name, t.Args["size"] = "Resize", s.Arg
	case "crop":
		t.Name, t.Args["size"] = "CenterCrop", s.Arg
	case "hflip":
		t.Name = "RandomHorizontalFlip"
	default:
		return t, false
	}
	t.text = t.Name + "("
	if s.Kind.Max != 0 {
		t.text += fmt.Sprint(s.Arg)
	}
	for i, word := range s.Kind.Words {
		switch r := s.Words[i]; {
		case !r.Given:
		case word.Max == 0:
			t.Args["interpolation"] = "bicubic"
			t.text += ", interpolation=BICUBIC"
		default:
			from, to := float64(r.From)/100, float64(r.To)/100
			t.Args[word.Name] = []float64{from, to}
			t.text += fmt.Sprintf(", %s=(%v, %v)", word.Name, from, to)
		}
	}
	t.text += ")"
	return t, true
}
