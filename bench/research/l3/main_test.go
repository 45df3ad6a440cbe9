package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
)

// TestMeasure asks as compare.py does.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	m := pictures.Photo(100, 70, 1)
	var file bytes.Buffer
	testenv.Must(t, png.Encode(&file, m))
	ppm := fmt.Appendf(nil, "P6\n%d %d\n255\n", m.Rect.Dx(), m.Rect.Dy())
	for pixel := range slices.Chunk(m.Pix, 4) {
		ppm = append(ppm, pixel[:3]...)
	}
	paths := [2]string{filepath.Join(dir, "a.ppm"), filepath.Join(dir, "a.png")}
	for i, content := range [][]byte{ppm, file.Bytes()} {
		testenv.Must(t, os.WriteFile(paths[i], content, 0o644))
	}

	var out bytes.Buffer
	load := fmt.Sprintf(`{"do":"load","ppm":[%q],"png":[%q]}`+"\n", paths[0], paths[1])
	testenv.Must(t, measure(strings.NewReader(load), &out))
	var loaded answer
	testenv.Must(t, json.Unmarshal(out.Bytes(), &loaded))
	requests, want := load, 1
	for _, w := range loaded.Ways {
		if w.Bytes < 1000 || w.Bytes > 3*100*70*2 {
			t.Errorf("%s: %d bytes", w.Name, w.Bytes)
		}
		requests, want = requests+fmt.Sprintf(`{"do":"decode","way":%q,"passes":2}`+"\n", w.Name), want+1
		if w.Encodes {
			requests, want = requests+fmt.Sprintf(`{"do":"encode","way":%q,"passes":2}`+"\n", w.Name), want+1
		}
	}
	out.Reset()
	testenv.Must(t, measure(strings.NewReader(requests), &out))
	answers := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(answers) != want || len(loaded.Ways) != 4 {
		t.Fatalf("%d answers, want %d; %d ways, want 4", len(answers), want, len(loaded.Ways))
	}
	for _, line := range answers[1:] {
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.Seconds <= 0 || a.Seconds > 60 {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := measure(strings.NewReader(load+`{"do":"decode","way":"none","passes":1}`), &out); err == nil {
		t.Error("a way that there is not was measured")
	}
}
