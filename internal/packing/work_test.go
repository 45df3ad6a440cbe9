package packing

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// place is a dataset of text files in a place of objects, planned, and a worker.
type place struct {
	dir     string // the dataset
	store   string
	m       *Making
	worker  *Worker
	objects *faultfs.Objects // the dataset
	put     *faultfs.Objects // the store
}

func newPlace(t *testing.T, files int) *place {
	t.Helper()
	p := &place{dir: t.TempDir(), store: t.TempDir()}
	for i := range files {
		name := filepath.Join(p.dir, string(rune('a'+i%26)), strings.Repeat("x", 1+i/26)+".txt")
		testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testenv.Must(t, os.WriteFile(name, bytes.Repeat([]byte(name[len(p.dir):]), 100), 0o644))
	}
	d, err := source.Open(p.dir, source.Options{})
	testenv.Must(t, err)
	t.Cleanup(func() { d.Close() })
	what := pack.Dataset{Registry: codecs.Default(transcode.Limits{}), Dir: d}
	p.m = making(t, versioned{Dataset{what}, p.dir})
	at, err := blob.OpenDirectory(p.store)
	testenv.Must(t, err)
	p.put = &faultfs.Objects{Objects: at}
	p.m.Place, p.m.Verbatim = p.put, what.Verbatim
	in, err := blob.OpenDirectory(p.dir)
	testenv.Must(t, err)
	p.objects = &faultfs.Objects{Objects: in}
	p.worker = &Worker{
		Place: p.put, Objects: p.objects, Encoder: what, Verbatim: what.Verbatim, Build: t.TempDir(),
		Options: store.PackOptions{Logger: slog.New(slog.DiscardHandler)}, Warn: func(string, error) {},
	}
	return p
}

// versioned is a tree of a directory, whose files have the versions of objects.
type versioned struct {
	Dataset
	dir string
}

func (v versioned) Members(ctx context.Context, dir string, yield func(Entry, error) bool) bool {
	in, err := blob.OpenDirectory(v.dir)
	if err != nil {
		return yield(Entry{}, err)
	}
	return v.Dataset.Members(ctx, dir, func(e Entry, err error) bool {
		if err == nil && e.Kind == store.File {
			var i blob.Info
			i, err = in.Stat(ctx, e.Path)
			e.Version = i.Version
		}
		return yield(e, err)
	})
}

// A worker that meets an error which may pass leaves no marker, and the next one makes what was to be made.
func TestPassing(t *testing.T) {
	p := newPlace(t, 30)
	p.m.Options.PackBytes = 3000 // several packs
	p.worker.Plan = mustMake(t, p.m)
	broken := errors.New("broken pipe")
	for _, c := range []struct {
		what string
		at   *faultfs.Objects
		op   string
		nth  int64
		err  error
	}{
		{"read", p.objects, blob.OpGet, 20, broken},
		{"not permitted", p.objects, blob.OpGet, 20, fs.ErrPermission},
		{"put the second pack", p.put, blob.OpPut, 3, broken},
		{"put the marker", p.put, blob.OpPut, -1, broken},
	} {
		var n atomic.Int64
		c.at.Before = func(op, name string) error {
			if op == c.op && (n.Add(1) == c.nth || c.nth < 0 && strings.Contains(name, "/shards/")) {
				return c.err
			}
			return nil
		}
		if _, err := p.worker.Pack(t.Context(), 0); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.what, err)
		}
		c.at.Before = nil
		if _, err := ReadMarker(t.Context(), p.put, p.worker.Plan.ID, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: there is a marker, %v", c.what, err)
		}
	}
	done, err := p.worker.Pack(t.Context(), 0)
	testenv.Must(t, err)
	if done.Before || done.Failed != 0 || done.Files != 30 || len(done.Packs) < 3 {
		t.Errorf("%+v", done.Marker)
	}
	for _, s := range done.Packs {
		for _, name := range []string{s.File(), s.SegmentFile()} {
			if _, err := os.Stat(filepath.Join(p.store, name)); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := os.ReadDir(p.worker.Build); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Two workers whose files differ: the second one says so, and changes nothing.
func TestDiffers(t *testing.T) {
	p := newPlace(t, 30)
	p.worker.Plan = mustMake(t, p.m)
	done, err := p.worker.Pack(t.Context(), 0)
	testenv.Must(t, err)
	pack := filepath.Join(p.store, done.Packs[0].File())
	before, err := os.ReadFile(pack)
	testenv.Must(t, err)
	testenv.Must(t, os.Remove(filepath.Join(p.store, MarkerName(p.worker.Plan.ID, 0))))
	testenv.Must(t, os.Remove(filepath.Join(p.dir, "a", "x.txt")))
	if _, err := p.worker.Pack(t.Context(), 0); !errors.Is(err, ErrDiffers) {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(pack); err != nil || !bytes.Equal(before, after) {
		t.Error("the pack was replaced")
	}
	if _, err := os.Stat(filepath.Join(p.store, MarkerName(p.worker.Plan.ID, 0))); err == nil {
		t.Error("there is a marker")
	}
}

// TestRequests: what a worker asks of the store and of the dataset does not grow with the plan.
func TestRequests(t *testing.T) {
	p := newPlace(t, 200)
	p.m.Shards = 20
	p.worker.Plan = mustMake(t, p.m)
	id := p.worker.Plan.ID
	var asked []string
	p.put.Before = func(op, name string) error {
		if strings.HasSuffix(name, ".plan") || op != blob.OpPut {
			asked = append(asked, op)
		}
		return nil
	}
	listed := 0
	p.objects.Before = func(op, _ string) error {
		if op != blob.OpGet {
			listed++
		}
		return nil
	}
	opened, err := Open(t.Context(), p.put, id)
	testenv.Must(t, err)
	p.worker.Plan = opened
	done, err := p.worker.Pack(t.Context(), 7)
	testenv.Must(t, err)
	// the plan's size, its end; the marker; the row, the entries
	if want := []string{blob.OpStat, blob.OpGet, blob.OpStat, blob.OpGet, blob.OpGet}; !slices.Equal(asked, want) || listed > 0 || done.Files == 0 {
		t.Errorf("%d files: asked %q, want %q; %d requests of the dataset that read nothing", done.Files, asked, want, listed)
	}
}

// TestMarkers: what is no marker of the shard is not taken for one.
func TestMarkers(t *testing.T) {
	p := newPlace(t, 3)
	p.worker.Plan = mustMake(t, p.m)
	id := p.worker.Plan.ID
	other := &Marker{Plan: store.ID{1}, Shard: 0}
	testenv.Must(t, other.Put(t.Context(), p.put))
	wrong, err := os.ReadFile(filepath.Join(p.store, MarkerName(other.Plan, 0)))
	testenv.Must(t, err)
	_, err = p.worker.Pack(t.Context(), 0)
	testenv.Must(t, err)
	name := filepath.Join(p.store, MarkerName(id, 0))
	whole, err := os.ReadFile(name)
	testenv.Must(t, err)
	for i := range whole {
		b := slices.Clone(whole)
		b[i] ^= 1
		testenv.Must(t, os.WriteFile(name, b, 0o600))
		if _, err := ReadMarker(t.Context(), p.put, id, 0); !errors.Is(err, ErrMarker) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	for _, b := range [][]byte{wrong, whole[:len(whole)/2], {}} {
		testenv.Must(t, os.WriteFile(name, b, 0o600))
		if _, err := p.worker.Pack(t.Context(), 0); !errors.Is(err, ErrMarker) || !strings.Contains(err.Error(), "delete this file, and run the same command again") {
			t.Errorf("%v", err)
		}
	}
}
