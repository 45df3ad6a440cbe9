package main

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
)

// photos DIR N: makes a dataset of N pictures that are large enough to measure.
func cmdPhotos(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(writePhotos(ts.MkAbs(args[0]), n))
}

func writePhotos(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range n {
		var photo image.Image = pictures.Photo(240+i, 180+i, uint64(i))
		if i%5 == 4 {
			// grey has fewer scans than there are levels
			grey := image.NewGray(photo.Bounds())
			for j := range grey.Pix {
				grey.Pix[j] = photo.(*image.NRGBA).Pix[4*j]
			}
			photo = grey
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, photo, &jpeg.Options{Quality: 92}); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".jpg"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// costly FILE COMMENTS: writes a JPEG with many scans, and so many comments.
func cmdCostly(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pictures.Costly(n), 0o644))
}

func TestSummarize(t *testing.T) {
	l := &likeness{}
	var found []degrees
	for i := range 40 {
		low := 0.9
		if i < 2 { // a twentieth
			low = 0.5
		}
		found = append(found, degrees{similarity: []float64{low, 0.96 - float64(i%2)*0.02, 1}, bytes: []int{100, 200 + 200*(i%2), 600}})
	}
	l.summarize(found)
	want := []scanRow{
		{View: "scan1", Mean: 0.88, Low: 0.5, Bytes: 100, ShareRead: 1. / 6},
		{View: "scan2", Mean: 0.95, Low: 0.94, Reaching: 0.5, Bytes: 300, ShareRead: 0.5},
		{View: "scan3", Mean: 1, Low: 1, Reaching: 1, Bytes: 600, ShareRead: 1},
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if diff := cmp.Diff(want, l.Scans, near); diff != "" {
		t.Error(diff)
	}
	if l.Measured != 40 || l.Mark != 0.95 {
		t.Errorf("%+v", l)
	}
	l = &likeness{}
	l.summarize([]degrees{{similarity: []float64{0.3, 0.951, 0.949, 1}, bytes: []int{1, 2, 3, 4}}})
	if l.Lowest != "scan2" || l.Scans[0].Low != 0.3 {
		t.Errorf("%+v", l)
	}
	l = &likeness{}
	if l.summarize(nil); l.Lowest != "" || len(l.Scans) != 0 {
		t.Errorf("of nothing: %+v", l)
	}
	l.print(io.Discard)
}

// What was measured before Ctrl-C is told.
func TestMeasureInterrupted(t *testing.T) {
	dir := t.TempDir()
	testenv.Must(t, writePhotos(dir, 6))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := opening{path: dir}.open(t.Context(), nowhere)
	testenv.Must(t, err)
	defer s.close()
	l := &likeness{Wanted: 7, names: []string{"0.jpg", "1.jpg", "gone.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg"}}
	if err := l.measure(ctx, nowhere, s); err != nil || l.Measured != 6 || len(l.LeftOut) != 1 || !strings.HasPrefix(l.LeftOut[0].Example, "gone.jpg: ") {
		t.Errorf("%v, %+v", err, l)
	}
	if got := l.Scans[9]; got.Mean != 1 || got.ShareRead != 1 {
		t.Errorf("%+v", got)
	}
	cancel()
	l = &likeness{Wanted: 6, names: []string{"0.jpg", "1.jpg"}}
	if err := l.measure(ctx, nowhere, s); exit.Of(err) != exit.Interrupted || l.Measured != 0 || len(l.LeftOut) != 0 {
		t.Errorf("%v, %+v", err, l)
	}
}
