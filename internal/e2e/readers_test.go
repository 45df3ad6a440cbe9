package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testmount"
)

// TestManyReaders has 32 readers list two views and read all files, in orders of their own
// and in pieces of random size, while nothing is prepared yet: all read the same bytes.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	dataset := testmount.Generate(t, "-samples", "40", "-width", "300", "-height", "225")
	for _, mode := range cacheModes {
		t.Run(mode, func(t *testing.T) {
			mnt := testmount.Mount(t, testmount.Home(t), dataset, "--cache", mode)
			var mu sync.Mutex
			found := map[string]string{}
			var readers sync.WaitGroup
			for i := range 32 {
				readers.Go(func() {
					var names []string
					for _, view := range []string{"scan5", "bmp"} {
						err := filepath.WalkDir(filepath.Join(mnt, view), func(name string, e os.DirEntry, err error) error {
							if err == nil && !e.IsDir() {
								names = append(names, name)
							}
							return err
						})
						if err != nil {
							t.Error(err)
						}
					}
					r := rand.New(rand.NewPCG(1, uint64(i)))
					for _, k := range r.Perm(len(names)) {
						hash, err := readInPieces(names[k], r)
						mu.Lock()
						if before, ok := found[names[k]]; err != nil || ok && before != hash {
							t.Errorf("%s: two readers read different bytes, or %v", names[k], err)
						}
						found[names[k]] = hash
						mu.Unlock()
					}
				})
			}
			readers.Wait()
			if len(found) != 2*41 { // 40 samples and the labels, in two views
				t.Errorf("%d files were read", len(found))
			}
		})
	}
}

func readInPieces(name string, r *rand.Rand) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, 1+r.IntN(200_000))
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, buf); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
