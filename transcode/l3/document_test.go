package l3

import (
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// The documentation shows a file that is made here.
func TestDocument(t *testing.T) {
	b, err := Encode(&transcode.Pixels{Width: 3, Height: 2, Mode: transcode.ModeL, Pix: []byte{10, 12, 11, 10, 13, 40}}, Options{})
	testenv.Must(t, err)
	testenv.Example(t, "../../docs/generated/l3-example.md", b)
}
