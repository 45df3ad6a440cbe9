package walk

import (
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testmount"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "reader" {
		readerMain()
		return
	}
	code := testmount.Main(m)
	os.RemoveAll(expected.dir)
	os.Exit(code)
}
