package turbo

import (
	"errors"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/transcode"
)

// TestMissing wants the text for a machine without the library to say what to
// install.
func TestMissing(t *testing.T) {
	err := load([]string{"libturbojpeg-that-nobody-has.so.0"})
	if !errors.Is(err, transcode.ErrUnsupported) || !strings.Contains(err.Error(), "libturbojpeg0 (Debian") {
		t.Errorf("%v", err)
	}
}
