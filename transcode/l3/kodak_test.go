package l3

import (
	"bytes"
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/png"
)

// TestKodak takes real photographs there and back.
func TestKodak(t *testing.T) {
	paths := testenv.Shared(t, "kodak/*.png")
	var files, sizes [3]int
	for _, path := range paths {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		px, err := png.Decoder{}.Decode(t.Context(), src, transcode.Limits{})
		testenv.Must(t, err)
		px.Meta = transcode.Metadata{}
		for _, mode := range []Mode{Dense, Fast, V1} {
			sizes[mode] += len(roundTrip(t, px, Options{Mode: mode}))
			files[mode] += len(src)
		}
	}
	for _, mode := range []Mode{Dense, Fast, V1} {
		t.Logf("%v: %d bytes, %.3f of PNG", mode, sizes[mode], float64(sizes[mode])/float64(files[mode]))
	}
	if sizes[Dense] > files[Dense]*82/100 || sizes[Fast] > files[Fast] {
		t.Error("larger than promised")
	}
}

// TestLarge takes a picture of 12 megapixels there and back.
func TestLarge(t *testing.T) {
	px := pictures.Pixels(transcode.ModeRGB, 4000, 3000)
	for _, mode := range []Mode{Dense, Fast, V1} {
		roundTrip(t, px, Options{Mode: mode})
	}
}

func roundTrip(t *testing.T, px *transcode.Pixels, o Options) []byte {
	t.Helper()
	b, err := Encode(px, o)
	testenv.Must(t, err)
	got, err := Decode(b, transcode.Limits{})
	testenv.Must(t, err)
	if got.Width != px.Width || got.Height != px.Height || got.Mode != px.Mode || !bytes.Equal(got.Pix, px.Pix) {
		t.Fatalf("%+v: another picture", o)
	}
	return b
}
