package strategy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// records are of many lengths, none included, and some larger than a block.
func records() (all []record) {
	for i, n := range []int{0, 1, 100, 70_000, block + 17, 3, 2 * block, 0, 999} {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(k * k >> (i % 5))
		}
		all = append(all, record{Index: i, bytes: b, Palette: b[:min(n, i*16)], Orientation: uint8(i), Planar: i%2 == 1})
	}
	return all
}

func writeRecords(t *testing.T, compression string) (name string, size int64) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "shard")
	size, err := writeShard(name, compression, func(add func(record) error) error {
		for _, r := range records() {
			testenv.Must(t, add(r))
		}
		return nil
	})
	testenv.Must(t, err)
	return name, size
}

// TestShards wants all records back, whether their memory is kept or used again.
func TestShards(t *testing.T) {
	var plain int64
	for _, compression := range Compressions {
		name, size := writeRecords(t, compression)
		if st, err := os.Stat(name); err != nil || st.Size() != size {
			t.Errorf("%s: %v, %d bytes were told", compression, err, size)
		}
		for _, keep := range []bool{false, true} {
			want, n := records(), 0
			testenv.Must(t, readShard(name, compression, 2*block, keep, func(r *record) error {
				w := want[n]
				if r.Index != w.Index || !bytes.Equal(r.bytes, w.bytes) || !bytes.Equal(r.Palette, w.Palette) || len(r.EXIF) > 0 || r.Orientation != w.Orientation || r.Planar != w.Planar {
					t.Errorf("%s: record %d differs", compression, n)
				}
				n++
				return nil
			}))
			if n != len(want) {
				t.Errorf("%s: %d records", compression, n)
			}
		}
		if compression == None {
			plain = size
			most := int64(4 * overhead)
			for _, r := range records() {
				most += overhead + int64(len(r.bytes)+len(r.Palette))
			}
			if size > most {
				t.Errorf("%d bytes, more than %d", size, most)
			}
		} else if size >= plain/2 {
			t.Errorf("%s: %d of %d bytes", compression, size, plain)
		}
	}
	if _, err := writeShard(filepath.Join(t.TempDir(), "x"), "lz4", nil); err == nil {
		t.Error("there is no such compression")
	}
}

// TestCutShards wants an error that names the file where a shard ends within a record.
func TestCutShards(t *testing.T) {
	for _, compression := range Compressions {
		name, size := writeRecords(t, compression)
		for _, n := range []int64{size - 10, size / 2, 11, 1} {
			testenv.Must(t, os.Truncate(name, n))
			err := readShard(name, compression, 2*block, false, func(*record) error { return nil })
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, %d of %d bytes: %v", compression, n, size, err)
			}
		}
	}
}

// TestDamagedStore wants a run's own error to tell what happened.
func TestDamagedStore(t *testing.T) {
	root, files := dataset(t, 6)
	dir := t.TempDir()
	_, err := Run(t.Context(), Config{
		Registry: registry, Pipeline: parse(t, "resize64-center"), Root: root, Files: files, Work: dir, Rounds: 1, Workers: []int{1},
		Progress: func(what string) {
			if !strings.HasPrefix(what, "reading center") {
				return
			}
			shards, err := filepath.Glob(filepath.Join(dir, "*", "*", "shard-000"))
			if err != nil || len(shards) != 4 {
				t.Errorf("%v %v", shards, err)
			}
			for _, s := range shards {
				if err := os.Truncate(s, 4096); err != nil {
					t.Error(err)
				}
			}
		},
	})
	if err == nil || !strings.Contains(fmt.Sprint(err), "what was stored cannot be read back") || !strings.Contains(err.Error(), "shard-000") {
		t.Error(err)
	}
	wantEmpty(t, dir)
}
