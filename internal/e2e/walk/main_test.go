package walk

import (
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testmount"
)

func TestMain(m *testing.M) { os.Exit(testmount.Main(m)) }
