package index

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// pairs are keys in order and their values: of odd lengths, some very long.
func pairs(r *rand.Rand, n int) (keys, values [][]byte) {
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, "train/n%04d\x00n%04d_%06d.JPEG", i/100, i/100, 2*i))
		length := r.IntN(300)
		if n > 10 && i%(n/3) == 5 {
			length = maxPiece*r.IntN(4) + r.IntN(3) - 1
		}
		value := make([]byte, max(length, 0))
		for k := range value {
			value[k] = byte(r.Uint32())
		}
		values = append(values, value)
	}
	return keys, values
}

func mustBuild(t testing.TB, dir string, keys, values [][]byte) {
	t.Helper()
	size := int64(0)
	for i := range keys {
		size += int64(len(keys[i]) + len(values[i]))
	}
	w, err := Create(t.Context(), dir, "this", size)
	testenv.Must(t, err)
	for i := range keys {
		testenv.Must(t, w.Add(keys[i], values[i]))
	}
	testenv.Must(t, w.Finish(map[string]int{"n": len(keys)}))
}

func TestIndex(t *testing.T) {
	for _, n := range []int{0, 1, 2, 20_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
			dir := filepath.Join(t.TempDir(), "i")
			keys, values := pairs(r, n)
			mustBuild(t, dir, keys, values)
			mustBuild(t, dir, keys, values) // in place of it
			x, err := Open(dir, "this")
			testenv.Must(t, err)
			meta := map[string]int{}
			testenv.Must(t, x.Describe(&meta))
			if x.Len() != int64(n) || meta["n"] != n {
				t.Errorf("%d keys, %v", x.Len(), meta)
			}
			for i := range keys {
				got, err := x.Get(nil, keys[i])
				if err != nil || got == nil || !bytes.Equal(got, values[i]) {
					t.Fatalf("%q: %d bytes, %v; want %d", keys[i], len(got), err, len(values[i]))
				}
				absent := fmt.Appendf(nil, "train/n%04d\x00n%04d_%06d.JPEG", i/100, i/100, 2*i+1)
				for _, key := range [][]byte{absent, append(slices.Clone(keys[i]), '!'), keys[i][:len(keys[i])-1], pieceKey(keys[i], 1)} {
					if got, err := x.Get(nil, key); got != nil || err != nil {
						t.Fatalf("%q, which is not there: %d bytes, %v", key, len(got), err)
					}
				}
			}
			for range 20 {
				from := r.IntN(n + 1)
				key := []byte("zzz")
				if from < n {
					key = slices.Clone(keys[from])
					key[len(key)-1]--
				}
				at := from
				testenv.Must(t, x.Walk(key, func(k, v []byte) error {
					if !bytes.Equal(k, keys[at]) || !bytes.Equal(v, values[at]) {
						return fmt.Errorf("from %q on: %q, want %q", key, k, keys[at])
					}
					if at++; at == from+50 {
						return ErrEnough
					}
					return nil
				}))
				if at != min(from+50, n) {
					t.Fatalf("from %d to %d", from, at)
				}
			}
			at := 0
			for kv, err := range x.From(nil) {
				testenv.Must(t, err)
				if !bytes.Equal(kv[0], keys[at]) || !bytes.Equal(kv[1], values[at]) {
					t.Fatalf("key %d: %q", at, kv[0])
				}
				at++
			}
			if at != n {
				t.Errorf("%d of %d", at, n)
			}
			testenv.Must(t, x.Close())
			if _, err := x.Get(nil, []byte("a")); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
				t.Errorf("left: %v", entries)
			}
		})
	}
}

// TestOrder: what does not come in order, or could be taken for something else, is refused.
func TestOrder(t *testing.T) {
	dir := t.TempDir()
	for _, keys := range [][]string{{"b", "a"}, {"a", "a"}, {"a\x00\x00b"}, {string(make([]byte, maxKey+1))}} {
		w, err := Create(t.Context(), filepath.Join(dir, "i"), "this", 0)
		testenv.Must(t, err)
		for _, key := range keys {
			err = errors.Join(err, w.Add([]byte(key), nil))
		}
		if err == nil {
			t.Errorf("%q was taken", keys)
		}
		if err := w.Finish(nil); err == nil {
			t.Errorf("%q was taken", keys)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("left: %v", entries)
		}
	}
}

// TestSort: much more than a table of memory holds comes back in order, and nothing is left.
func TestSort(t *testing.T) {
	r, dir := rand.New(rand.NewPCG(testenv.Seed(t), 2)), t.TempDir()
	s, err := NewSorter(dir)
	testenv.Must(t, err)
	var want []string
	for range 200_000 {
		key := fmt.Sprintf("%016x", r.Uint64())
		want = append(want, key)
		testenv.Must(t, s.Add([]byte(key), bytes.Repeat([]byte(key[:4]), 30)))
	}
	slices.Sort(want)
	at := 0
	testenv.Must(t, s.Each(func(key, value []byte) error {
		if string(key) != want[at] || !bytes.Equal(value, bytes.Repeat(key[:4], 30)) {
			return fmt.Errorf("%s, want %s", key, want[at])
		}
		at++
		return nil
	}))
	testenv.Must(t, s.Close())
	if left, _ := os.ReadDir(dir); at != len(want) || len(left) > 0 {
		t.Errorf("%d of %d; left: %v", at, len(want), left)
	}
}

// TestSortFullDisk: a sort that finds the disk full says so, and leaves nothing.
func TestSortFullDisk(t *testing.T) {
	testenv.Root(t)
	disk := t.TempDir()
	testenv.Must(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=12m"))
	defer func() { testenv.Must(t, unix.Unmount(disk, 0)) }()
	s, err := NewSorter(disk)
	testenv.Must(t, err)
	for i := 0; i < 400_000 && err == nil; i++ {
		err = s.Add(fmt.Appendf(nil, "%016x", i), make([]byte, 100))
	}
	if err == nil {
		err = s.Each(func(_, _ []byte) error { return nil })
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v", err)
	}
	testenv.Must(t, s.Close())
	var at unix.Statfs_t
	if testenv.Must(t, unix.Statfs(disk, &at)); at.Bfree < at.Blocks-1 {
		t.Errorf("%d of %d blocks are free", at.Bfree, at.Blocks)
	}
}
