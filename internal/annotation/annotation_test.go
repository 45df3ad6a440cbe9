package annotation

import (
	"slices"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Counts
	}{
		{"a.xml", "<annotation><object><bndbox><xmin>1</xmin></bndbox></object></annotation>", Pixels},
		{"a.xml", "<annotation><caption>a cat</caption></annotation>", Nothing},
		{"a.json", `{"images":[],"annotations":[{"bbox": [1,2,3,4]}]}`, Pixels},
		{"a.json", `{"shapes":[{"label":"cat","points":[[1,2],[3,4]]}]}`, Pixels},
		{"labels.json", `{"cat/1.jpg": 3}`, Nothing},
		{"a.txt", "0 0.5 0.5 0.25 1\n", Relative},
		{"a.txt", "3 .1 .1 .2 .1 .2 .2\n", Relative},
		{"a.txt", "a photograph of a cat, 4k, 8 0.5\n", Nothing}, // a caption
		{"train.txt", "images/1.jpg\n", Nothing},
		{"a.md", "0 0.5 0.5 0.25 1\n", Nothing},
	} {
		if got := Of(c.name, []byte(c.text)); got != c.want {
			t.Errorf("%s %q: %d, want %d", c.name, c.text, got, c.want)
		}
	}
}

func TestPictures(t *testing.T) {
	got := Pictures([]byte(`{"images":[{"id":1,"file_name": "1.jpg"},{"file_name":"val/2.jpg"}]}`))
	if !slices.Equal(got, []string{"1.jpg", "2.jpg"}) {
		t.Error(got)
	}
}

func TestEnds(t *testing.T) {
	for _, size := range []int{0, 1, endBytes, endBytes + 1, 2 * endBytes, 3 * endBytes} {
		text := strings.Repeat("x", size)
		got, err := Ends(strings.NewReader(text), int64(size))
		if err != nil || len(got) != min(size, 2*endBytes) {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
	}
}
