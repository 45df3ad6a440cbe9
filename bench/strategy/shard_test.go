package strategy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// bodies are of many lengths, none included, and some larger than a block.
func bodies() (out [][]byte) {
	for i, n := range []int{0, 1, 100, 70_000, block + 17, 3, 2 * block, 999} {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(k * k >> (i % 5))
		}
		out = append(out, b)
	}
	return out
}

func writeShard(t *testing.T, compression string) (name string, size int64) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "shard")
	w, err := createShard(name, compression)
	testenv.Must(t, err)
	for i, b := range bodies() {
		testenv.Must(t, w.append(uint32(i), b))
	}
	if size, err = w.finish(); err != nil {
		t.Fatal(err)
	}
	return name, size
}

// readAll reads a shard and returns the first error; nil where all was there.
func readAll(name, compression string) error {
	all := bodies()
	r, err := openShard(name, compression)
	if err != nil {
		return err
	}
	defer r.Close()
	var buf []byte
	for i := range all {
		index, body, err := r.next(func(i uint32) int64 {
			if int(i) >= len(all) {
				return -1
			}
			return int64(len(all[i]))
		}, buf)
		if err != nil {
			return err
		}
		if int(index) != i || !bytes.Equal(body, all[i]) {
			return fmt.Errorf("record %d is wrong and nothing said so", i)
		}
		buf = body
	}
	if _, _, err := r.next(nil, buf); !errors.Is(err, errEnd) {
		return fmt.Errorf("after the last record: %w", err)
	}
	return nil
}

func TestShards(t *testing.T) {
	var plain int64
	for _, compression := range Compressions {
		name, size := writeShard(t, compression)
		if st, err := os.Stat(name); err != nil || st.Size() != size {
			t.Errorf("%s: %v, %d bytes were told", compression, err, size)
		}
		if err := readAll(name, compression); err != nil {
			t.Errorf("%s: %v", compression, err)
		}
		if compression == None {
			plain = size
		} else if size >= plain/2 {
			t.Errorf("%s: %d of %d bytes", compression, size, plain)
		}
	}
	if _, err := createShard(filepath.Join(t.TempDir(), "x"), "lz4"); err == nil {
		t.Error("there is no such compression")
	}
}

// TestDamagedShards wants every damage to be noticed, by an error that names the
// file: flipped bits anywhere, and an end anywhere.
func TestDamagedShards(t *testing.T) {
	for _, compression := range Compressions {
		name, size := writeShard(t, compression)
		whole, err := os.ReadFile(name)
		testenv.Must(t, err)
		check := func(what string, b []byte) {
			t.Helper()
			testenv.Must(t, os.WriteFile(name, b, 0o600))
			err := readAll(name, compression)
			if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "nothing said so") {
				t.Errorf("%s, %s: %v", compression, what, err)
			}
		}
		if compression == None {
			for _, at := range []int64{0, 4, 8, 12, 24, 60, size / 2, size - 17, size - 5, size - 1} {
				b := bytes.Clone(whole)
				b[at] ^= 4
				check(fmt.Sprintf("byte %d", at), b)
			}
			// Between two records, too.
			check("without the last record", whole[:size-headerSize-trailerSize])
		} else {
			b := bytes.Clone(whole)
			for at := size / 3; at < size/3+64; at++ {
				b[at] ^= 0x55
			}
			check("bytes in the middle", b)
		}
		for _, n := range []int64{0, 1, 11, size / 2, size - trailerSize - 10} {
			check(fmt.Sprintf("%d bytes", n), whole[:n])
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
	if err == nil || !strings.Contains(err.Error(), "what was stored cannot be read back") || !strings.Contains(err.Error(), "shard-000") {
		t.Error(err)
	}
	wantEmpty(t, dir)
}

// FuzzBody: a body of whatever bytes is refused or read, and never more than that.
func FuzzBody(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	root, files := dataset(f, 1)
	c := Config{Registry: registry, Pipeline: parse(f, "resize64-center-chw"), Root: root, Files: files}
	testenv.Must(f, c.complete())
	task, err := survey(f.Context(), &c)
	testenv.Must(f, err)
	s := task.samples[0]
	for split := 2; split < len(task.splits); split++ {
		st := &stored{task: task, split: split}
		_, body, err := st.record(f.Context(), s, nil, nil)
		testenv.Must(f, err)
		f.Add(body, uint8(split))
	}
	f.Fuzz(func(t *testing.T, b []byte, split uint8) {
		steps := task.splits[int(split)%len(task.splits)].Steps
		p, err := readBody(b, s.shape(steps))
		if err == nil && p.Pixels != nil && len(p.Pixels.Pix) != p.Pixels.Len() {
			t.Errorf("%d bytes of pixels", len(p.Pixels.Pix))
		}
	})
}
