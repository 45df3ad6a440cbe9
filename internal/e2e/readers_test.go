package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// readerEnv makes the test binary a reader: it holds a readerJob in JSON.
const readerEnv = "PIPEFS_E2E_READER"

type readerJob struct {
	Dirs    []string
	Workers int
	Seed    uint64
}

// readerMain reads every file of the job's directories with each of its
// workers, in an order of its own and in pieces of random size, and prints the
// hashes.
func readerMain() int {
	var job readerJob
	if err := json.Unmarshal([]byte(os.Getenv(readerEnv)), &job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var names []string
	for _, dir := range job.Dirs {
		err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	var mu sync.Mutex
	found := map[string]string{}
	var failed error
	var workers sync.WaitGroup
	for w := range job.Workers {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(job.Seed, uint64(w)))
			for _, i := range r.Perm(len(names)) {
				hash, err := readInPieces(names[i], r)
				mu.Lock()
				if err != nil {
					failed = err
				} else if before, ok := found[names[i]]; ok && before != hash {
					failed = fmt.Errorf("%s: two workers read different bytes", names[i])
				}
				found[names[i]] = hash
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if failed != nil {
		fmt.Fprintln(os.Stderr, failed)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		return 1
	}
	return 0
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

// TestManyReaders has eight processes of four workers read two views at once,
// while nothing is prepared yet.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	dataset := testmount.Generate(t, "-samples", "40", "-width", "300", "-height", "225")
	for _, mode := range cacheModes {
		t.Run(mode, func(t *testing.T) {
			mnt := testmount.Mount(t, testmount.Home(t), dataset, "--cache", mode)
			dirs := []string{filepath.Join(mnt, "scan5"), filepath.Join(mnt, "bmp")}
			outs := make([]string, 8)
			errs := make([]error, len(outs))
			var readers sync.WaitGroup
			for i := range outs {
				readers.Go(func() {
					job, _ := json.Marshal(readerJob{Dirs: dirs, Workers: 4, Seed: uint64(i)})
					cmd := exec.Command(os.Args[0])
					cmd.Env = append(os.Environ(), readerEnv+"="+string(job))
					var stderr strings.Builder
					cmd.Stderr = &stderr
					out, err := cmd.Output()
					if err != nil {
						err = fmt.Errorf("%w: %s", err, stderr.String())
					}
					outs[i], errs[i] = string(out), err
				})
			}
			readers.Wait()
			var want map[string]string
			for i, out := range outs {
				if errs[i] != nil {
					t.Fatal(errs[i])
				}
				var got map[string]string
				testenv.Must(t, json.Unmarshal([]byte(out), &got))
				if want == nil {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("reader %d:\n%s", i, diff)
				}
			}
			if len(want) != 2*41 { // 40 samples and the labels, in two views
				t.Errorf("%d files were read", len(want))
			}
		})
	}
}
