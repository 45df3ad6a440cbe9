package l3

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// The documentation shows a file that is made here: it fails when code and
// document disagree.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "l3.md"))
	testenv.Must(t, err)
	b, err := Encode(&transcode.Pixels{Width: 3, Height: 2, Mode: transcode.ModeL, Pix: []byte{10, 12, 11, 10, 13, 40}}, Options{})
	testenv.Must(t, err)
	if dump := hex.Dump(b); !strings.Contains(string(doc), dump) {
		t.Errorf("docs/l3.md does not show this file; did the format change?\n%s", dump)
	}
}
