package loader

import (
	"context"
	"errors"
	"math"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

// pillow runs a line of Python with an interpreter that has Pillow.
func pillow(t *testing.T, code string, args ...string) string {
	t.Helper()
	python, err := findPython(t.Context(), "", "PIL")
	if err != nil {
		t.Fatalf("%v (Debian, Ubuntu: python3-torchvision)", err)
	}
	out, err := exec.Command(python, append([]string{"-c", code}, args...)...).Output()
	if err != nil {
		t.Fatalf("%s: %v", python, err)
	}
	return string(out)
}

func TestCalibrate(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	pillow(t, "")
	dir, names := tree(t, 12)
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	write(t, names[1], []byte("not a picture"))
	began := time.Now()
	ratios, err := Calibrate(t.Context(), "", append(names, filepath.Join(dir, "nowhere.jpg")))
	testenv.Must(t, err)
	t.Logf("%v in %v", ratios, time.Since(began))
	if len(ratios) != 3 {
		t.Fatalf("%v", ratios)
	}
	for _, format := range []string{"JPEG", "PNG", "BMP"} {
		if r := ratios[format]; r <= 0 || math.IsInf(r, 0) {
			t.Errorf("%s: %v", format, r)
		}
	}
}

func TestCalibrateWithoutPillow(t *testing.T) {
	dir, names := tree(t, 1)
	ratios, err := Calibrate(t.Context(), "/bin/false", []string{filepath.Join(dir, names[0])})
	if ratios != nil || err != nil {
		t.Errorf("%v, %v", ratios, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Calibrate(ctx, "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
