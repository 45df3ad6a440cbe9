package store

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// The documentation shows a pack that is made here from fixed input: it fails
// when code and document disagree.
func TestFormatDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "store-format.md"))
	testenv.Must(t, err)
	dump := hex.Dump(tinyPack(t))
	if !strings.Contains(string(doc), dump) {
		t.Errorf("docs/store-format.md does not show this pack; did the format change?\n%s", dump)
	}
}
