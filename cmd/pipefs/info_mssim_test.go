package main

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
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

// What was measured before Ctrl-C is told.
func TestMeasureInterrupted(t *testing.T) {
	dir := t.TempDir()
	testenv.Must(t, writePhotos(dir, 6))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := openSource(ctx, nowhere, mountd.SourceOptions{Path: dir})
	testenv.Must(t, err)
	defer s.Close()
	l := surveyOf(7, "0.jpg", "1.jpg", "gone.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg")
	if err := measure(ctx, nowhere, s, l); err != nil || l.Measured != 6 || len(l.LeftOut) != 1 || !strings.HasPrefix(l.LeftOut[0].Example, "gone.jpg: ") {
		t.Errorf("%v, %+v", err, l)
	}
	if got := l.Scans[9]; got.Mean != 1 || got.ShareRead != 1 {
		t.Errorf("%+v", got)
	}
	cancel()
	l = surveyOf(6, "0.jpg", "1.jpg")
	if err := measure(ctx, nowhere, s, l); exit.Of(err) != exit.Interrupted || l.Measured != 0 || len(l.LeftOut) != 0 {
		t.Errorf("%v, %+v", err, l)
	}
}

// surveyOf is a survey of samples that can be measured.
func surveyOf(wanted int, names ...string) *mssim.Survey {
	l := &mssim.Survey{Wanted: wanted}
	for _, name := range names {
		l.Consider(name, transcode.Info{Width: 240, Height: 180, Scannable: true}, "")
	}
	return l
}
