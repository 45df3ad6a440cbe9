package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

// killedDataset is what child and parent both know.
func killedDataset(seed uint64) *memSource {
	return generate(rand.New(rand.NewPCG(seed, 2)), 150, 30_000)
}

const killedPack = 200_000

// childPack is the process that is killed. It tells of every record that is
// written, and when it is done.
func childPack(dir string) {
	seed, err := strconv.ParseUint(os.Getenv("PIPEFS_TEST_SEED"), 10, 64)
	if err != nil {
		panic(err)
	}
	fmt.Println("0")
	_, err = Pack(context.Background(), dir, killedDataset(seed), fakeEncoder{id: "1", delay: time.Millisecond}, PackOptions{
		PackBytes: killedPack, Logger: quiet,
		Progress: func(p Progress) { fmt.Println(p.Files + p.Skipped) },
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("done")
}

// A packing process is killed at random moments. No sample that it had told of
// is lost, none is wrong, and the last run completes the store.
func TestKill(t *testing.T) {
	kills := 50
	if testing.Short() || testenv.Race {
		kills = 15
	}
	r := random(t)
	seed := r.Uint64()
	src := killedDataset(seed)
	root := tempDir(t)
	dir := filepath.Join(root, "0")
	for hit, round := 0, 0; hit < kills; round++ {
		told, killed := killOnce(t, r, dir, seed)
		if acknowledged := storedFiles(t, dir); acknowledged < told {
			t.Fatalf("round %d: %d files told, %d stored", round, told, acknowledged)
		}
		// Readers in between: what is there is right.
		if s, err := Open(dir, Options{Logger: quiet}); err == nil {
			for name, f := range src.files {
				got, err := s.Lookup(name)
				if err == nil && got.Kind == File {
					_, err = compareSample(s.Reader, &got, f.data)
				}
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Errorf("round %d: %s: %v", round, name, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, ErrNotStore) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("round %d: %v", round, err)
		}
		if killed {
			hit++
			continue
		}
		// Complete: the same packs as in one go; then start over.
		checkStore(t, dir, src)
		want := filepath.Join(root, "want")
		mustPack(t, want, src, PackOptions{PackBytes: killedPack})
		if !samePacks(packFiles(t, want), packFiles(t, dir)) {
			t.Errorf("round %d: kills make other packs", round)
		}
		dir = filepath.Join(root, fmt.Sprint(round+1))
	}
	mustPack(t, dir, src, PackOptions{PackBytes: killedPack})
	checkStore(t, dir, src)
	testenv.Must(t, os.Remove(filepath.Join(dir, currentName)))
	checkStoreAgain(t, dir, src)
	testenv.Proved(t, "writers", kills)
}

// checkStoreAgain checks a store whose index has to be made again.
func checkStoreAgain(t *testing.T, dir string, src *memSource) {
	t.Helper()
	s := mustOpen(t, dir)
	if bad, err := compareStore(s, src); bad > 0 || err != nil {
		t.Errorf("with a new index: %d corrupt, %v", bad, err)
	}
}

// killOnce starts a child and kills it, unless it is done before. It returns
// how many files the child had told of, and whether the kill hit it at work.
func killOnce(t *testing.T, r *rand.Rand, dir string, seed uint64) (told int, killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PIPEFS_TEST_PACK="+dir, fmt.Sprintf("PIPEFS_TEST_SEED=%d", seed))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testenv.Must(t, err)
	testenv.Must(t, cmd.Start())
	lines, wait := r.IntN(60), time.Duration(r.IntN(3000))*time.Microsecond
	scanner := bufio.NewScanner(out)
	done := false
	for n := 0; scanner.Scan(); n++ {
		if scanner.Text() == "done" {
			done = true
		} else if v, err := strconv.Atoi(scanner.Text()); err == nil {
			told = max(told, v)
		}
		if n == lines {
			time.Sleep(wait)
			_ = cmd.Process.Kill() // it may have ended already
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status, ok := exit.Sys().(syscall.WaitStatus)
		if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Fatalf("the child failed by itself: %v", err)
		}
		return told, !done
	}
	testenv.Must(t, err)
	return told, false
}

// storedFiles counts what a next run can take over.
func storedFiles(t *testing.T, dir string) int {
	t.Helper()
	packs := filepath.Join(dir, packsName)
	sealed, unfinished, err := listPacks(vfs.OS, packs)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	testenv.Must(t, err)
	n := 0
	count := func(samples []Sample) { n += len(samples) }
	for _, name := range sealed {
		f, err := vfs.OS.Open(filepath.Join(packs, name.String()))
		if err == nil {
			_, err = eachSealed(f, byAge(name), func(rec scanned) error { count(rec.samples); return nil })
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range unfinished {
		f, err := os.Open(filepath.Join(packs, name.String()))
		testenv.Must(t, err)
		st, err := f.Stat()
		testenv.Must(t, err)
		for rec, err := range scan(f, byAge(name), st.Size(), true) {
			if err == nil {
				count(rec.samples)
			}
		}
		_ = f.Close()
	}
	return n
}

// Readers of a store that they cannot write make an index of their own.
func TestReadOnlyStore(t *testing.T) {
	dir := tempDir(t)
	src := generate(random(t), 10, 2_000)
	mustPack(t, dir, src, PackOptions{PackBytes: 1})
	testenv.Must(t, os.Remove(filepath.Join(dir, currentName)))
	lock, err := vfs.OS.Lock(filepath.Join(dir, lockName)) // somebody writes
	testenv.Must(t, err)
	temp := tempDir(t)
	t.Setenv("TMPDIR", temp)
	s, err := Open(dir, Options{Logger: quiet})
	testenv.Must(t, err)
	if bad, err := compareStore(s, src); bad > 0 || err != nil {
		t.Errorf("%d corrupt, %v", bad, err)
	}
	// Whatever ends the process now, nothing stays.
	if names, err := os.ReadDir(temp); err != nil || len(names) != 0 {
		t.Errorf("the index has a name: %v, %v", names, err)
	}
	if err := errors.Join(s.Close(), lock.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, currentName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reader wrote into a locked store: %v", err)
	}
	s = mustOpen(t, dir)
	if _, err := os.Stat(filepath.Join(dir, currentName)); err != nil {
		t.Errorf("the index was not made again: %v", err)
	}
	if bad, err := compareStore(s, src); bad > 0 || err != nil {
		t.Errorf("%d corrupt, %v", bad, err)
	}
}

// childRead is a process without the right to write.
func childRead(dir string) {
	s, err := Open(dir, Options{Logger: quiet})
	if err != nil {
		panic(err)
	}
	got, err := s.Lookup("class0/0003.txt")
	if err != nil {
		panic(err)
	}
	b, err := readLevel(s.Reader, got.Representations[0], 0)
	if err != nil {
		panic(err)
	}
	fmt.Print(len(b), " ", s.now.Load().index.Load().name == privateName)
	if err := s.Close(); err != nil {
		panic(err)
	}
}

// Somebody else's store can be read, with its index and without.
func TestAnotherUser(t *testing.T) {
	testenv.Root(t)
	dir := tempDir(t)
	src := generate(random(t), 10, 2_000)
	mustPack(t, dir, src, PackOptions{})
	exe, err := os.ReadFile(os.Args[0])
	testenv.Must(t, err)
	bin := filepath.Join(tempDir(t), "test")
	testenv.Must(t, os.WriteFile(bin, exe, 0o755))
	own := tempDir(t)
	for d, uid := range map[string]int{dir: 0, filepath.Dir(bin): 0, own: 65534} {
		testenv.Must(t, errors.Join(os.Chmod(d, 0o755), os.Chown(d, uid, uid)))
	}
	for _, index := range []bool{true, false} {
		if !index {
			testenv.Must(t, os.Remove(filepath.Join(dir, currentName)))
		}
		cmd := exec.Command(bin)
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "PIPEFS_TEST_READ="+dir, "TMPDIR="+own)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		if want := fmt.Sprint(len(src.files["class0/0003.txt"].data), " ", !index); err != nil || string(out) != want {
			t.Errorf("index %v: %q, want %q, %v", index, out, want, err)
		}
	}
}
