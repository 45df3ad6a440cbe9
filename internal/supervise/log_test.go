package supervise

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestLargeLogIsPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "log")
	for range 2 {
		f, err := OpenLog(path)
		testenv.Must(t, err)
		testenv.Must(t, f.Truncate(maxLog+1))
		f.Close()
	}
	if info, err := os.Stat(path + ".old"); err != nil || info.Size() != maxLog+1 {
		t.Errorf("%v, %v", info, err)
	}
}
