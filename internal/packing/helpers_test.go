package packing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

var quiet = slog.New(slog.DiscardHandler)

// memory is a dataset in memory: files, by their paths.
type memory map[string]string

func (m memory) Root() (Entry, error) { return Entry{Kind: store.Dir, Mode: 0o755}, nil }

func (m memory) entry(name string) Entry {
	e := Entry{Path: name, Kind: store.File, Mode: 0o644}
	e.Identity.Size = int64(len(m[name]))
	copy(e.Identity.Version[:], m[name])
	return e
}

func (m memory) Members(_ context.Context, dir string, yield func(Entry, error) bool) bool {
	members := map[string]Entry{}
	for name := range m {
		rest := name
		if dir != "" {
			var in bool
			if rest, in = strings.CutPrefix(name, dir+"/"); !in {
				continue
			}
		}
		if base, _, more := strings.Cut(rest, "/"); more {
			members[base] = Entry{Path: path.Join(dir, base), Kind: store.Dir, Mode: 0o755}
		} else {
			members[base] = m.entry(name)
		}
	}
	for _, base := range slices.Sorted(maps.Keys(members)) {
		if !yield(members[base], nil) {
			return false
		}
	}
	return true
}

func (m memory) Read(_ context.Context, f store.SourceFile) ([]byte, error) {
	data, ok := m[f.Path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	if e := m.entry(f.Path); e.Identity != f.Identity {
		return nil, store.ErrChanged
	}
	return []byte(data), nil
}

func (m memory) Copy(ctx context.Context, f store.SourceFile, w io.Writer) error {
	data, err := m.Read(ctx, f)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// Encode implements [store.Encoder]: files are kept as they are.
func (m memory) Encode(_ context.Context, _ string, data []byte) (store.Encoded, error) {
	return store.Encoded{Representations: []store.EncodedRepresentation{{Key: transcode.Original, Split: transcode.Split{Data: data}}}}, nil
}

func (m memory) Current(*store.Sample) bool { return true }

func someFiles(n int) memory {
	m := memory{}
	for i := range n {
		m[fmt.Sprintf("class%d/%04d.txt", i%5, i)] = fmt.Sprintf("file %d %s", i, strings.Repeat("x", i%50))
	}
	return m
}

// planOf plans what the store in dir lacks of a dataset.
func planOf(t *testing.T, dir string, m memory, shards int) *Plan {
	t.Helper()
	mk := making(t, m)
	var err error
	mk.Place, err = blob.OpenDirectory(dir)
	testenv.Must(t, err)
	mk.Shards, mk.Options.PackBytes = shards, 2_000
	if is, err := store.IsIn(vfs.OS, dir); err == nil && is {
		mk.Base, err = store.Open(dir, store.Options{Logger: quiet})
		testenv.Must(t, err)
		defer mk.Base.Close()
	}
	return mustMake(t, mk)
}

func packShards(t *testing.T, p *Plan, m memory, shards ...int) {
	t.Helper()
	w := &Worker{
		Plan: p, Place: p.place, Directory: m, Encoder: m, Verbatim: func(string, int64) bool { return false },
		Build: tempDir(t), Options: store.PackOptions{Logger: quiet}, Warn: func(string, error) {},
	}
	if len(shards) == 0 {
		for i := range p.Shards {
			shards = append(shards, i)
		}
	}
	for _, i := range shards {
		_, err := w.Pack(t.Context(), i)
		testenv.Must(t, err)
	}
}

func commitPlan(ctx context.Context, p *Plan, dir string, allow int64, fsys vfs.FS) (*Committed, error) {
	return p.Commit(ctx, dir, CommitOptions{CommitOptions: store.CommitOptions{Logger: quiet, FS: fsys}, AllowFailed: allow})
}

// holds says what a store has that differs from a dataset.
func holds(dir string, m memory) error {
	s, err := store.Open(dir, store.Options{Logger: quiet})
	if err != nil {
		return err
	}
	defer s.Close()
	files := 0
	err = s.Each(func(e *store.Sample) error {
		if e.Kind != store.File {
			return nil
		}
		files++
		r, err := s.Reader(e.Representations[0], 0)
		if err != nil {
			return err
		}
		b := make([]byte, e.Source.Size)
		if _, err := r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if data, ok := m[e.Path]; !ok || data != string(b) {
			return fmt.Errorf("%s holds %q, want %q", e.Path, b, data)
		}
		return nil
	})
	if err == nil && files != len(m) {
		err = fmt.Errorf("%d files, want %d", files, len(m))
	}
	return err
}

func mustHold(t *testing.T, dir string, m memory) {
	t.Helper()
	if err := holds(dir, m); err != nil {
		t.Fatal(err)
	}
	problems, err := store.Check(t.Context(), dir, store.Options{Logger: quiet}, nil)
	if err != nil || len(problems) > 0 {
		t.Fatalf("check: %v, %v", problems, err)
	}
}

// content is all that is in a store, but for what belongs to the machine that reads.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	testenv.Must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		if b, err := os.ReadFile(name); err == nil && !strings.HasPrefix(rel, "index/") && !strings.HasPrefix(rel, ".pipefs-") && rel != "lock" {
			all[rel] = string(b)
		}
		return err
	}))
	return all
}

func (m memory) with(change func(memory)) memory {
	n := maps.Clone(m)
	change(n)
	return n
}
