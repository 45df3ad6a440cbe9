package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// partsEncoder keeps the originals of some pictures only, and knows two kinds of pictures.
type partsEncoder struct{ fakeEncoder }

func (e partsEncoder) Encode(ctx context.Context, name string, data []byte) (Encoded, error) {
	out, err := e.fakeEncoder.Encode(ctx, name, data)
	if out.Info.Format != transcode.Unknown && len(data)%3 > 0 {
		out.Info.Scannable = len(data)%3 == 1
		out.Representations = out.Representations[1:]
	}
	return out, err
}

func (partsEncoder) Current(*Sample) bool { return true }

// TestDelta: whatever a few changes are, the delta that they make of an index shows and counts what a
// whole index does.
func TestDelta(t *testing.T) {
	t.Parallel()
	dir, r := tempDir(t), random(t)
	src := generate(r, 600, 300)
	pack := func() {
		t.Helper()
		_, err := Pack(t.Context(), dir, src, partsEncoder{}, PackOptions{Logger: quiet})
		testenv.Must(t, err)
	}
	pack()
	deltas := 0
	for round := range 12 {
		names := slices.Sorted(maps.Keys(src.files))
		for range 1 + round%4 {
			switch name := names[1+r.IntN(len(names)-1)]; r.IntN(4) {
			case 0:
				src.remove(name)
			case 1:
				src.put(fmt.Sprintf("class1/new%d-%d.jpg", round, r.IntN(100)), noise(r, 300))
			case 2:
				src.mkdir(fmt.Sprintf("more%d/%d", round, r.IntN(100)))
				src.mkdir(fmt.Sprintf("more%d", round))
			default:
				if src.files[name].kind == File {
					src.put(name, noise(r, r.IntN(300)))
				}
			}
		}
		src.put(fmt.Sprintf("class2/%d.txt", round), noise(r, 10))
		for i, name := range []string{"a.jpg", "b"} { // each is a file and a directory in turn
			if src.remove(name); round%2 == i {
				src.put(name, noise(r, 300))
			} else {
				src.mkdir(name)
			}
		}
		pack()
		s := mustOpen(t, dir)
		v := s.now.Load()
		if v.index.Load().base != nil {
			deltas++
		}
		compareWithWhole(t, v)
		checkWithout(t, s, src)
		testenv.Must(t, s.Close())
	}
	if deltas < 6 {
		t.Errorf("%d of 12 indexes are deltas", deltas)
	}
	if names, err := os.ReadDir(filepath.Join(dir, indexName)); err != nil || len(names) > 4 {
		t.Errorf("indexes that nobody uses stay: %v, %v", names, err)
	}
}

// compareWithWhole compares the index of a store, and what is counted, with an index of all segments.
func compareWithWhole(t *testing.T, v *edition) {
	t.Helper()
	g, b := *v.gen, v.builder(true)
	g.Stats, b.gen = g.Stats.clone(), &g
	whole, err := indexDir{t.TempDir()}.private(t.Context(), b)
	testenv.Must(t, err)
	defer whole.Close()
	some := func(x *index, from []byte, most int) (items [][]byte) {
		testenv.Must(t, x.Walk(from, func(_, item []byte) error {
			if items = append(items, bytes.Clone(item)); len(items) == most {
				return sorted.ErrEnough
			}
			return nil
		}))
		return items
	}
	x := v.index.Load()
	want := some(whole, nil, -1)
	if got := some(x, nil, -1); !slices.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("%d entries, want %d, or others", len(got), len(want))
	}
	for i, item := range want {
		key := appendKey(nil, string(itemPath(item)))
		if got, err := x.Get(nil, key); err != nil || !bytes.Equal(got, item) {
			t.Fatalf("%q: %v", key, err)
		}
		if got, err := x.Get(nil, append(key, '~')); err != nil || got != nil {
			t.Fatalf("%q is there: %v", key, err)
		}
		if most := 1 + i%70; i%50 == 0 && !slices.EqualFunc(some(x, key, -1), want[i:], bytes.Equal) ||
			i%10 == 0 && !slices.EqualFunc(some(x, key, most), want[i:min(len(want), i+most)], bytes.Equal) {
			t.Fatalf("other entries from %q on", key)
		}
	}
	is, counted := v.gen.Stats, g.Stats
	kinds := func(st *Stats) (n []int64) {
		for _, k := range st.WithoutOriginal {
			if n = append(n, k.Samples); k.Samples == 0 {
				t.Errorf("a kind of no samples: %+v", st.WithoutOriginal)
			}
		}
		slices.Sort(n)
		return n
	}
	if is.Samples != counted.Samples || is.Dirs != counted.Dirs || is.Faults != counted.Faults || is.Pictures != counted.Pictures ||
		!maps.Equal(is.Bytes, counted.Bytes) || !slices.Equal(kinds(&is), kinds(&counted)) || v.gen.Entries != g.Entries || v.gen.NextSeq != g.NextSeq {
		t.Errorf("counted %d entries, %+v; there are %d, %+v", v.gen.Entries, is, g.Entries, counted)
	}
	for _, k := range is.WithoutOriginal {
		if e, err := x.get(k.Example); err != nil || e == nil || e.Representation(transcode.Original) != nil {
			t.Errorf("%s is no example: %v", k.Example, err)
		}
	}
}

// checkWithout compares names and kinds with the source; not all originals are stored.
func checkWithout(t *testing.T, s *Store, src *memSource) {
	t.Helper()
	n := 0
	testenv.Must(t, s.Each(func(e *Sample) error {
		n++
		if f, ok := src.files[e.Path]; !ok || f.kind != e.Kind || f.id != e.Source {
			t.Errorf("%q is shown", e.Path)
		}
		return nil
	}))
	if n != len(src.files) {
		t.Errorf("%d entries of %d", n, len(src.files))
	}
}

// TestDeltaIsDamaged: what is damaged of a delta, or of its base, is made again as a whole, also while the
// store is open.
func TestDeltaIsDamaged(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"delta", "base"} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", of, open), func(t *testing.T) {
				dir, src := tempDir(t), generate(random(t), 400, 50)
				mustPack(t, dir, src, PackOptions{})
				src.put("class1/new.jpg", []byte("new"))
				src.remove("class0/zero.jpg")
				mustPack(t, dir, src, PackOptions{})
				s := mustOpen(t, dir)
				defer func() { s.Close() }()
				x := s.now.Load().index.Load()
				if x.base == nil {
					t.Fatal("the index is no delta")
				}
				name := x.ID
				if of == "base" {
					name = x.base.ID
				}
				if !open {
					testenv.Must(t, s.Close())
				}
				tables, err := filepath.Glob(filepath.Join(dir, indexName, name, "*.sst"))
				testenv.Must(t, err)
				for _, table := range tables {
					b, err := os.ReadFile(table)
					testenv.Must(t, err)
					for i := range min(len(b)/2, 4096) { // the first block
						b[i] ^= 0x55
					}
					testenv.Must(t, os.Chmod(table, 0o644))
					f, err := os.OpenFile(table, os.O_WRONLY, 0)
					testenv.Must(t, err)
					_, err = f.Write(b)
					testenv.Must(t, err)
					testenv.Must(t, f.Close())
				}
				if !open {
					s = mustOpen(t, dir)
				}
				if _, err := compareStore(s, src); err != nil {
					t.Error(err)
				}
				if x := s.now.Load().index.Load(); x.base != nil {
					t.Error("nothing was made again")
				}
				checkStore(t, dir, src)
			})
		}
	}
}
