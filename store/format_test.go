package store

import (
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// The documentation shows a pack that is made here from fixed input.
func TestFormatDocument(t *testing.T) {
	testenv.Example(t, "../docs/generated/store-example.md", tinyPack(t))
}
