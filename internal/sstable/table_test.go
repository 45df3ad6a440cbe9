package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// plain are items that are keys, one byte behind their head.
var plain = &Layout{Head: 1, MaxItem: 100, Key: func(rest []byte) []byte { return rest }}

type memory struct{ b []byte }

func (m *memory) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(m.b).ReadAt(p, off) }

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.b = append(m.b[:off], p...)
	return len(p), nil
}

// write makes a table of n keys that end in even numbers, in small blocks.
func write(t *testing.T, n int) (*memory, Seal) {
	t.Helper()
	f := &memory{}
	w := NewWriter(f, plain)
	w.Limit(200)
	for i := range n {
		testenv.Must(t, w.Add(fmt.Appendf(nil, "-%06d", 2*i)))
	}
	seal, err := w.Finish()
	testenv.Must(t, err)
	return f, seal
}

func TestOrderOfBytes(t *testing.T) {
	const n = 1000
	f, seal := write(t, n)
	table, err := Open(f, seal, plain)
	testenv.Must(t, err)
	if seal.Height < 2 {
		t.Errorf("height %d", seal.Height)
	}
	for i := range 2 * n {
		key := fmt.Appendf(nil, "%06d", i)
		item, err := table.Find(key)
		if err != nil || (item != nil) != (i%2 == 0) {
			t.Fatalf("%s: %q, %v", key, item, err)
		}
		got := 0
		testenv.Must(t, table.Walk(key, func(item []byte) error {
			if want := fmt.Sprintf("-%06d", i+i%2+2*got); string(item) != want {
				t.Fatalf("from %s on: %q, want %q", key, item, want)
			}
			if got++; got == 10 {
				return ErrEnough
			}
			return nil
		}))
		if want := min(10, n-(i+1)/2); got != want {
			t.Fatalf("from %s on: %d items, want %d", key, got, want)
		}
	}
}

// What is damaged is an error or was not read: never another answer.
func TestDamage(t *testing.T) {
	f, seal := write(t, 100)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range f.b {
		damaged := &memory{slices.Clone(f.b)}
		damaged.b[i] ^= 1 << r.IntN(8)
		table, n := New(damaged, seal, plain), 0
		err := table.Walk(nil, func(item []byte) error {
			if want := fmt.Sprintf("-%06d", 2*n); string(item) != want {
				t.Fatalf("byte %d: %q, want %q", i, item, want)
			}
			n++
			return nil
		})
		if !errors.Is(err, ErrSum) {
			t.Fatalf("byte %d: %d items, %v", i, n, err)
		}
	}
}
