package l3

import (
	"errors"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// TestParts wants the patches of all versions to be where the decoder has them.
func TestParts(t *testing.T) {
	px := pictures.Pixels(transcode.ModeRGB, 70, 45)
	for _, mode := range []Mode{Dense, Fast, V1} {
		b, err := Encode(px, Options{Mode: mode, Patch: 32})
		testenv.Must(t, err)
		s, err := Open(b, transcode.Limits{})
		testenv.Must(t, err)
		parts, err := s.Parts()
		if err != nil || len(parts) != s.Columns()*2 {
			t.Fatalf("%v: %d parts, %v", mode, len(parts), err)
		}
		if err := s.Verify(); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		at := parts[0].Offset[0]
		for c := range 3 {
			for i, p := range parts {
				if mode == V1 && p.Offset[c] != at || mode != V1 && c == 0 && p.Offset[0] != s.patches[i].offset {
					t.Errorf("%v: patch %d, channel %d at %d", mode, i, c, p.Offset[c])
				}
				at += p.Length[c]
			}
		}
		if mode == V1 && at != len(b) {
			t.Errorf("parts end at %d of %d bytes", at, len(b))
		}
		if mode == V1 {
			s.src = b[:len(b)-1]
			if _, err := s.Parts(); !errors.Is(err, transcode.ErrTruncated) {
				t.Errorf("a file that ends early: %v", err)
			}
			s.src = b[:20]
			if _, err := s.Parts(); !errors.Is(err, transcode.ErrTruncated) {
				t.Errorf("a file that ends in its table: %v", err)
			}
			continue
		}
		b[parts[1].Offset[0]] ^= 1
		if err := s.Verify(); !errors.Is(err, transcode.ErrBad) {
			t.Errorf("%v: a damaged patch: %v", mode, err)
		}
	}
}
