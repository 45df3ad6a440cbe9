package index

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// damagedKeys is how many keys the index has that is damaged.
const damagedKeys = 3000

// blockEnd is how many bytes a block of a table ends with that Badger uses before it verifies the block: the number
// of its entries, its checksum, and the length of that.
const blockEnd = 16

func damagedKey(i int) []byte { return fmt.Appendf(nil, "d%02d\x00%06d.jpg", i/100, 2*i) }

func damagedValue(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%06d", i), 5+i%40)
}

// ask asks for everything, and for as much that is not there. An answer is right, or an error.
func ask(x *Index, r *rand.Rand) (errs, wrong int) {
	for _, i := range r.Perm(damagedKeys)[:600] {
		switch got, err := x.Get(nil, damagedKey(i)); {
		case err != nil:
			errs++
		case !bytes.Equal(got, damagedValue(i)):
			wrong++
		}
		absent := damagedKey(i)
		absent[len(absent)-5]++ // odd numbers are not there
		switch got, err := x.Get(nil, absent); {
		case err != nil:
			errs++
		case got != nil:
			wrong++
		}
	}
	from := r.IntN(damagedKeys)
	for _, begin := range []int{0, from} {
		i := begin
		err := x.Walk(damagedKey(begin), func(key, value []byte) error {
			if !bytes.Equal(key, damagedKey(i)) || !bytes.Equal(value, damagedValue(i)) {
				wrong++
				return ErrEnough
			}
			i++
			return nil
		})
		if err != nil {
			errs++
		} else if i != damagedKeys {
			wrong++
		}
	}
	return errs, wrong
}

// damage changes one file of an index, in a way that follows from the number, and says how.
func damage(r *rand.Rand, dir, other string, kind int) string {
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) == 0 {
		panic(err)
	}
	name := names[r.IntN(len(names))]
	if kind%2 == 0 { // half of the flips are in tables
		name = names[0]
	}
	b, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	at := r.IntN(len(b))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	var what string
	switch kind % 8 {
	case 0, 2: // in the index or the footer of a table, or at the end of its last block
		end, err := tableIndex(f, int64(len(b)))
		must(err)
		if at = int(end) + r.IntN(len(b)-int(end)); kind%8 == 2 {
			at = int(end) - 1 - r.IntN(blockEnd)
		}
		fallthrough
	case 1, 3:
		what = "flip"
		_, err = f.WriteAt([]byte{b[at] ^ 1<<r.IntN(8)}, int64(at))
	case 4:
		what = "flip in a table"
		_, err = f.WriteAt([]byte{b[at] ^ 1<<r.IntN(8)}, int64(at))
	case 5:
		what = "page of zeros"
		at &^= 4095
		_, err = f.WriteAt(make([]byte, min(4096, len(b)-at)), int64(at))
	case 6:
		what = "truncation"
		err = f.Truncate(int64(at))
	default: // of another build of the same keys
		what = "file of another build"
		swapped, e := os.ReadFile(filepath.Join(other, filepath.Base(name)))
		if err = e; err == nil {
			_ = f.Truncate(0)
			_, err = f.WriteAt(swapped, 0)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	return fmt.Sprintf("%s, %s, at %d", what, filepath.Base(name), at)
}

// askedMain is a process that asks a copy of an index, which is damaged before it is opened or while it is
// open.
func askedMain() {
	parts := strings.Split(os.Getenv("PIPEFS_TEST_ASK"), "|")
	dir, other := parts[0], parts[1]
	from, _ := strconv.Atoi(parts[2])
	to, _ := strconv.Atoi(parts[3])
	for n := from; n < to; n++ {
		r := rand.New(rand.NewPCG(uint64(n), 7))
		bad := filepath.Join(filepath.Dir(dir), fmt.Sprintf("bad%d", n))
		must(os.CopyFS(bad, os.DirFS(dir)))
		live := n%16 >= 8
		what := ""
		if !live {
			what = damage(r, bad, other, n)
		}
		fmt.Printf("%d %t %s\n", n, live, what)
		before := contents(bad)
		x, err := Open(bad, "this")
		if err == nil {
			if live {
				_, _ = ask(x, r)
				what = damage(r, bad, other, n)
				fmt.Printf("%d %t %s\n", n, live, what)
				before = contents(bad)
			}
			errs, wrong := ask(x, r)
			if wrong > 0 {
				fmt.Printf("WRONG %d: %s: %d wrong answers\n", n, what, wrong)
			}
			if errs > 0 {
				fmt.Println("ERRORS")
			}
			must(x.Close())
		} else if !errors.Is(err, ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
			fmt.Printf("WRONG %d: %s: %v\n", n, what, err)
		} else {
			fmt.Println("REFUSED")
		}
		if contents(bad) != before {
			fmt.Printf("WRONG %d: %s: opening it changed files\n", n, what)
		}
		must(os.RemoveAll(bad))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func contents(dir string) string {
	var all strings.Builder
	entries, err := os.ReadDir(dir)
	must(err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(err)
		fmt.Fprintf(&all, "%s %d %08x\n", e.Name(), len(b), Sum(b))
	}
	return all.String()
}

func TestMain(m *testing.M) {
	if os.Getenv("PIPEFS_TEST_ASK") != "" {
		askedMain()
		return
	}
	os.Exit(m.Run())
}

// TestDamage damages copies of an index, half of them while they are open: flips, half of which are in the
// indexes and footers of tables and at the end of their last blocks, pages of zeros, truncations, files of
// another build. No answer is wrong, and opening a copy changes no file. A process may end by an assertion of
// Badger's where the index of a table changed while it was open, and by nothing else. PIPEFS_DAMAGED says how many.
func TestDamage(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("PIPEFS_DAMAGED"))
	if err != nil {
		n = 160
	}
	temp := t.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		if temp, err = os.MkdirTemp("/dev/shm", "pipefs-test-"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(temp) })
	}
	dir, other := filepath.Join(temp, "whole"), filepath.Join(temp, "other")
	var keys, values [][]byte
	for i := range damagedKeys {
		keys, values = append(keys, damagedKey(i)), append(values, damagedValue(i))
	}
	mustBuild(t, dir, keys, values)
	mustBuild(t, other, keys, values)
	for _, d := range []string{dir, other} {
		names, err := filepath.Glob(filepath.Join(d, "*"))
		testenv.Must(t, err)
		for _, name := range names {
			testenv.Must(t, os.Chmod(name, 0o644))
		}
	}
	refused, withErrors, died := 0, 0, 0
	for at := 0; at < n; {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("PIPEFS_TEST_ASK=%s|%s|%d|%d", dir, other, at, n), "GOTRACEBACK=none")
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		last, live, what := 0, false, ""
		for _, line := range lines {
			switch {
			case strings.HasPrefix(line, "WRONG"):
				t.Error(line)
			case line == "ERRORS":
				withErrors++
			case line == "REFUSED":
				refused++
			default:
				_, scanned := fmt.Sscan(line, &last, &live)
				testenv.Must(t, scanned)
				what = line
			}
		}
		if err == nil {
			break
		}
		at = last + 1
		died++
		first, _, _ := strings.Cut(said.String(), "\n")
		if !live || !strings.Contains(what, ".sst") {
			t.Errorf("the process ended: %s: %s", what, said.String())
		}
		t.Logf("the process ended: %s: %s", what, first)
	}
	t.Logf("%d damaged: %d were refused when they were opened, %d gave errors, %d ended the process", n, refused, withErrors, died)
	if refused == 0 || withErrors == 0 {
		t.Error("nothing was damaged")
	}
	testenv.Proved(t, "damage", n)
}

// TestFullDisk: where the disk becomes full at any point, building is an error that says so, nothing is left
// of it, and the index that was there before is served on.
func TestFullDisk(t *testing.T) {
	testenv.Root(t)
	r := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	keys, values := pairs(r, 60_000)
	few := len(keys) / 20
	full := 0
	for mb := range 20 {
		disk := t.TempDir()
		testenv.Must(t, unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%dk", 9_500+mb*500)))
		dir := filepath.Join(disk, "i")
		mustBuild(t, dir, keys[:few], values[:few])
		x, err := Open(dir, "this")
		testenv.Must(t, err)
		w, err := Create(t.Context(), dir, "this", 0) // less than it takes
		for i := 0; err == nil && i < len(keys); i++ {
			err = w.Add(keys[i], values[i])
		}
		if w != nil {
			err = errors.Join(w.Finish(nil), err)
		}
		switch {
		case err == nil:
		case errors.Is(err, unix.ENOSPC):
			full++
		default:
			t.Errorf("%d MB: %v", mb, err)
		}
		if left, _ := os.ReadDir(disk); len(left) != 1 {
			t.Errorf("%d MB: left: %v", mb, left)
		}
		for _, i := range r.Perm(few)[:100] {
			if got, err := x.Get(nil, keys[i]); err != nil || !bytes.Equal(got, values[i]) {
				t.Fatalf("%d MB: %q: %d bytes, %v", mb, keys[i], len(got), err)
			}
		}
		testenv.Must(t, x.Close())
		testenv.Must(t, unix.Unmount(disk, 0))
	}
	if t.Logf("full %d times", full); full < 5 || full == 20 {
		t.Errorf("the disk was full %d times of 20", full)
	}
}
