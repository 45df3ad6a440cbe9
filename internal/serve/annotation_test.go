package serve

import (
	"slices"
	"strings"
	"testing"
)

func TestAnnotationOf(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       AnnotationCounts
	}{
		{"a.xml", "<annotation><object><bndbox><xmin>1</xmin></bndbox></object></annotation>", AnnotationPixels},
		{"a.xml", "<annotation><caption>a cat</caption></annotation>", NoAnnotation},
		{"a.json", `{"images":[],"annotations":[{"bbox": [1,2,3,4]}]}`, AnnotationPixels},
		{"a.json", `{"shapes":[{"label":"cat","points":[[1,2],[3,4]]}]}`, AnnotationPixels},
		{"labels.json", `{"cat/1.jpg": 3}`, NoAnnotation},
		{"a.txt", "0 0.5 0.5 0.25 1\n", AnnotationRelative},
		{"a.txt", "3 .1 .1 .2 .1 .2 .2\n", AnnotationRelative},
		{"a.txt", "a photograph of a cat, 4k, 8 0.5\n", NoAnnotation}, // a caption
		{"train.txt", "images/1.jpg\n", NoAnnotation},
		{"a.md", "0 0.5 0.5 0.25 1\n", NoAnnotation},
	} {
		if got := annotationOf(c.name, []byte(c.text)); got != c.want {
			t.Errorf("%s %q: %d, want %d", c.name, c.text, got, c.want)
		}
	}
}

func TestAnnotatedPictures(t *testing.T) {
	got := annotatedPictures([]byte(`{"images":[{"id":1,"file_name": "1.jpg"},{"file_name":"val/2.jpg"}]}`))
	if !slices.Equal(got, []string{"1.jpg", "2.jpg"}) {
		t.Error(got)
	}
}

func TestAnnotationEnds(t *testing.T) {
	for _, size := range []int{0, 1, endBytes, endBytes + 1, 2 * endBytes, 3 * endBytes} {
		text := strings.Repeat("x", size)
		if got := annotationEnds(strings.NewReader(text), int64(size)); len(got) != min(size, 2*endBytes) {
			t.Errorf("%d bytes: %d", size, len(got))
		}
	}
}
