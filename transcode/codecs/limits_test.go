package codecs_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestLimits wants a JPEG that is over a limit to be refused wherever it is
// read, by an error that names the option, and a higher limit to let it pass.
func TestLimits(t *testing.T) {
	usual, comments := pictures.Costly(1), pictures.Costly(5000)
	for _, c := range []struct {
		name   string
		src    []byte
		refuse transcode.Limits
		pass   transcode.Limits
		option string
	}{
		{"pixels", usual, transcode.Limits{MaxPixels: 63, MaxScans: 200}, transcode.Limits{MaxPixels: 64, MaxScans: 200}, "--max-pixels"},
		{"scans", usual, transcode.Limits{}, transcode.Limits{MaxScans: 190}, "--max-scans"},
		{"segments", comments, transcode.Limits{MaxScans: 200}, transcode.Limits{MaxSegments: 5100, MaxScans: 200}, "--max-segments"},
	} {
		for _, view := range []string{"scan5", "scan5-bmp", "bmp"} {
			err := apply(t, codecs.Default(c.refuse), view, c.src)
			if !errors.Is(err, transcode.ErrUnsupported) || !strings.Contains(err.Error(), c.option) {
				t.Errorf("%s of a file with too many %s: %v, want %s named", view, c.name, err, c.option)
			}
			if err := apply(t, codecs.Default(c.pass), view, c.src); err != nil {
				t.Errorf("%s of a file with many %s that are allowed: %v", view, c.name, err)
			}
		}
	}
	// The default, for a size of which nobody wants the pixels in a test.
	huge := bytes.Replace(usual, []byte{8, 0, 8, 0, 8, 1}, []byte{8, 0x40, 0, 0x40, 0, 1}, 1)
	if _, err := codecs.Default(transcode.Limits{}).ProbeBytes(huge); !errors.Is(err, transcode.ErrUnsupported) {
		t.Errorf("16384 by 16384 pixels: %v", err)
	}
	if _, err := codecs.Default(transcode.Limits{MaxPixels: 1 << 28}).ProbeBytes(huge); err != nil {
		t.Errorf("16384 by 16384 pixels that are allowed: %v", err)
	}
}

// apply returns the first error on the way from a file to its view.
func apply(t *testing.T, r *transcode.Registry, view string, src []byte) error {
	t.Helper()
	p, err := r.Parse(view)
	testenv.Must(t, err)
	info, err := r.ProbeBytes(src)
	if err != nil {
		return err
	}
	plan := r.Plan(p, info, transcode.Auto)
	if plan.Unchanged() {
		t.Fatalf("%s leaves the file unchanged", view)
	}
	_, err = plan.Run(t.Context(), src)
	return err
}
