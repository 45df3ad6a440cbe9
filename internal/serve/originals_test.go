package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// reconstructing returns a registry whose step `scan` has an reconstruction that is easy to
// follow: the source, each byte inverted, behind a checksum of the parts. change
// may break it.
func reconstructing(change func(*transcode.Kind)) *transcode.Registry {
	r := codecs.Default(transcode.Limits{})
	kind := scanOf(r)
	split := kind.Split
	kind.Split = func(ctx context.Context, src []byte, lim transcode.Limits, reconstruction bool) (transcode.Split, error) {
		s, err := split(ctx, src, lim, false)
		if err == nil && reconstruction {
			whole := slices.Concat(s.Data, s.Tail)
			s.Reconstruction = append([]byte{byte(crc32.ChecksumIEEE(whole))}, inverted(src)...)
		}
		return s, err
	}
	kind.Restore = func(_ context.Context, whole, reconstruction []byte, _ transcode.Limits) ([]byte, error) {
		if len(reconstruction) == 0 || reconstruction[0] != byte(crc32.ChecksumIEEE(whole)) {
			return nil, transcode.Errorf(transcode.ErrBad, "not the reconstruction of these parts")
		}
		return inverted(reconstruction[1:]), nil
	}
	if change != nil {
		change(kind)
	}
	return r
}

func scanOf(r *transcode.Registry) *transcode.Kind {
	all := r.Kinds()
	return all[slices.IndexFunc(all, func(k *transcode.Kind) bool { return k.Split != nil })]
}

func inverted(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = ^b[i]
	}
	return out
}

// packWith packs a dataset and returns how many files were packed.
func packWith(t *testing.T, r *transcode.Registry, root, dir string, o pack.Originals) int64 {
	t.Helper()
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	pack := pack.Dataset{Registry: r, Dir: d, Originals: o}
	report, err := store.Pack(context.Background(), dir, pack, pack, store.PackOptions{})
	if err != nil || report.Failed > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	return report.Files
}

func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	testenv.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// has tells what is stored of a sample, in short: s for parts, u for reconstruction, o for
// the original.
func has(t *testing.T, s *store.Store, r *transcode.Registry, name string) string {
	t.Helper()
	sample, err := s.Lookup(name)
	testenv.Must(t, err)
	kind, found := scanOf(r), ""
	for _, k := range []struct{ letter, key string }{
		{"s", transcode.SplitKey(kind)}, {"u", transcode.ReconstructionKey(kind)}, {"o", transcode.Original},
	} {
		if sample.Representation(k.key) != nil {
			found += k.letter
		}
	}
	return found
}

// TestOriginalsThatAreStored: what is stored by each policy, and where an reconstruction is
// missing or does not hold.
func TestOriginalsThatAreStored(t *testing.T) {
	root := writeDataset(t)
	restore := func(f func(src []byte) ([]byte, error)) func(*transcode.Kind) {
		return func(k *transcode.Kind) {
			was := k.Restore
			k.Restore = func(ctx context.Context, whole, reconstruction []byte, lim transcode.Limits) ([]byte, error) {
				src, err := was(ctx, whole, reconstruction, lim)
				if err != nil {
					return nil, err
				}
				return f(src)
			}
		}
	}
	for _, c := range []struct {
		what   string
		policy pack.Originals
		change func(*transcode.Kind)
		want   string
	}{
		{what: "the default", want: "su"},
		{what: "rebuild", policy: pack.Rebuild, want: "su"},
		{what: "keep", policy: pack.Keep, want: "so"},
		{what: "drop", policy: pack.Drop, want: "s"},
		{what: "no reconstruction", want: "so", change: func(k *transcode.Kind) {
			was := k.Split
			k.Split = func(ctx context.Context, src []byte, lim transcode.Limits, _ bool) (transcode.Split, error) {
				return was(ctx, src, lim, false)
			}
		}},
		{what: "no kind that restores", want: "so", change: func(k *transcode.Kind) { k.Restore = nil }},
		{what: "an error", want: "so", change: restore(func([]byte) ([]byte, error) { return nil, errors.New("no") })},
		{what: "a panic", want: "so", change: restore(func([]byte) ([]byte, error) { panic("no") })},
		{what: "one byte more", want: "so", change: restore(func(b []byte) ([]byte, error) { return append(b, 0), nil })},
		{what: "another byte", want: "so", change: restore(func(b []byte) ([]byte, error) { b[len(b)/2] ^= 1; return b, nil })},
	} {
		t.Run(c.what, func(t *testing.T) {
			r, dir := reconstructing(c.change), filepath.Join(t.TempDir(), "store")
			packWith(t, r, root, dir, c.policy)
			s := openStore(t, dir)
			if got := has(t, s, r, "a.jpg"); got != c.want {
				t.Errorf("of a JPEG there is %q, want %q", got, c.want)
			}
			for _, name := range []string{"c.png", "labels.json"} {
				if got := has(t, s, r, name); got != "o" {
					t.Errorf("of %s there is %q, want the file", name, got)
				}
			}
		})
	}
}

// TestRepackingWithAnotherPolicy: only what lacks something is packed again.
func TestRepackingWithAnotherPolicy(t *testing.T) {
	root, r := writeDataset(t), reconstructing(nil)
	for _, c := range []struct {
		from, to pack.Originals
		packed   int64
		want     string
	}{
		{pack.Rebuild, pack.Rebuild, 0, "su"},
		{pack.Rebuild, pack.Keep, 2, "so"},
		{pack.Rebuild, pack.Drop, 0, "su"},
		{pack.Keep, pack.Rebuild, 0, "so"},
		{pack.Keep, pack.Keep, 0, "so"},
		{pack.Keep, pack.Drop, 0, "so"},
		{pack.Drop, pack.Rebuild, 2, "su"},
		{pack.Drop, pack.Keep, 2, "so"},
		{pack.Drop, pack.Drop, 0, "s"},
	} {
		t.Run(fmt.Sprintf("%s to %s", c.from, c.to), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			if n := packWith(t, r, root, dir, c.from); n != 4 {
				t.Fatalf("packed %d files", n)
			}
			if n := packWith(t, r, root, dir, c.to); n != c.packed {
				t.Errorf("packed %d files again, want %d", n, c.packed)
			}
			if got := has(t, openStore(t, dir), r, "b.jpg"); got != c.want {
				t.Errorf("of a JPEG there is %q, want %q", got, c.want)
			}
		})
	}
}

func TestPackingThatIsInterruptedStoresNoGuess(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r := reconstructing(func(k *transcode.Kind) {
		k.Restore = func(ctx context.Context, _, _ []byte, _ transcode.Limits) ([]byte, error) {
			cancel()
			return nil, ctx.Err()
		}
	})
	src, err := os.ReadFile(filepath.Join(writeDataset(t), "a.jpg"))
	testenv.Must(t, err)
	if e, err := (pack.Dataset{Registry: r}).Encode(ctx, "a.jpg", src); !errors.Is(err, context.Canceled) {
		t.Errorf("%d representations, %v", len(e.Representations), err)
	}
}

// fromStore reads a store without its dataset.
func fromStore(t *testing.T, r *transcode.Registry, dir string, change func(*Options)) fixture {
	t.Helper()
	s := openStore(t, dir)
	p, err := New(Options{Registry: r, Source: StoreTree(s), Store: s})
	testenv.Must(t, err)
	if change != nil {
		change(&p.o)
	}
	t.Cleanup(func() { p.Close() })
	return fixture{p, "", &sync.Map{}}
}

// TestOriginalIsRebuilt: once for all readers, of the promised size, kept in
// memory and nowhere else; and every other view is what it always was.
func TestOriginalIsRebuilt(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	restored := make(chan bool, 100)
	r := reconstructing(nil)
	packWith(t, r, root, dir, pack.Rebuild)
	kind := scanOf(r)
	was := kind.Restore
	kind.Restore = func(ctx context.Context, whole, reconstruction []byte, lim transcode.Limits) ([]byte, error) {
		restored <- true
		return was(ctx, whole, reconstruction, lim)
	}
	overlay := openOverlay(t, filepath.Join(t.TempDir(), "overlay"), 0)
	defer overlay.Close()
	f := fromStore(t, r, dir, func(o *Options) { o.Overlay = overlay })
	file, v := f.file(t, "a.jpg"), view(t, "original")
	wanted := want(t, root, "a.jpg", v)
	if res, err := f.Resolve(context.Background(), 0, file, v); err != nil || res.Size() != int64(len(wanted)) || len(restored) > 0 {
		t.Errorf("looked up: %+v, %v, rebuilt %d times", res, err, len(restored))
	}
	var readers sync.WaitGroup
	for i := range 16 {
		readers.Go(func() {
			if got, err := f.read(Key(i), file, v); err != nil || !bytes.Equal(got, wanted) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	readers.Wait()
	if s := f.Stats(); s.Produced != 1 || s.Rebuilt != 1 || s.Kept != 0 || len(restored) != 1 {
		t.Errorf("rebuilt %d times: %+v", len(restored), s)
	}
	// What a view leaves unchanged is the original; pixels come from the scans.
	for i, spec := range views {
		v, err := r.Parse(spec)
		testenv.Must(t, err)
		for j, name := range []string{"b.jpg", "c.png", "labels.json"} {
			got, err := f.read(Key(100+10*i+j), f.file(t, name), v)
			if err != nil || !bytes.Equal(got, want(t, root, name, view(t, spec))) {
				t.Errorf("%s of %s: %d bytes, %v", spec, name, len(got), err)
			}
		}
	}
	if len(restored) != 2 {
		t.Errorf("two originals were read, and %d rebuilt", len(restored))
	}
}

// TestDatasetBeforeRebuilding: a dataset that has the file saves the work, and one
// that has not does no harm.
func TestDatasetBeforeRebuilding(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	r := reconstructing(nil)
	packWith(t, r, root, dir, pack.Rebuild)
	wanted := want(t, root, "a.jpg", view(t, "original"))
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	f := fromStore(t, r, dir, func(o *Options) { o.Dataset = d })
	for i, rebuilt := range []int64{0, 1} {
		if got, err := f.read(Key(i), f.file(t, "a.jpg"), view(t, "original")); err != nil || !bytes.Equal(got, wanted) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if s := f.Stats(); s.Rebuilt != rebuilt {
			t.Errorf("rebuilt %d, want %d", s.Rebuilt, rebuilt)
		}
		testenv.Must(t, os.WriteFile(filepath.Join(root, "a.jpg"), []byte("another file"), 0o644))
	}
}

// TestNearbyDatasetBeforeRebuilding: the dataset that a store was packed from saves the
// work where it happens to be there. A reader never notices that it changes.
func TestNearbyDatasetBeforeRebuilding(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	r := reconstructing(nil)
	packWith(t, r, root, dir, pack.Rebuild)
	v := view(t, "original")
	wanted := want(t, root, "a.jpg", v)
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	f := fromStore(t, r, dir, func(o *Options) { o.Nearby = d })
	rebuilt := func(want int64) {
		t.Helper()
		if s := f.Stats(); s.Rebuilt != want {
			t.Errorf("rebuilt %d, want %d", s.Rebuilt, want)
		}
	}
	c, err := f.Open(context.Background(), 1, f.file(t, "a.jpg"), v)
	testenv.Must(t, err)
	defer c.Release()
	check := func() {
		t.Helper()
		got := make([]byte, c.Size())
		if n, err := c.ReadAt(got, 0); n != len(got) || err != nil || !bytes.Equal(got, wanted) {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	check()
	rebuilt(0)
	testenv.Must(t, os.WriteFile(filepath.Join(root, "a.jpg"), []byte("another file"), 0o644))
	check() // in the middle of reading
	rebuilt(1)
	if got, err := f.read(2, f.file(t, "a.jpg"), v); err != nil || !bytes.Equal(got, wanted) {
		t.Errorf("opened afterwards: %d bytes, %v", len(got), err)
	}
	// What the mount can show does not depend on it.
	if m, err := f.Missing(v); err != nil || m.Samples != 0 {
		t.Errorf("missing %+v, %v", m, err)
	}
	if n, err := f.Rebuilt(); err != nil || n == 0 {
		t.Errorf("%d samples would be rebuilt, %v", n, err)
	}
}

// TestOriginalThatCannotBeRebuilt is our fault, never the sample's, and is tried
// again.
func TestOriginalThatCannotBeRebuilt(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	r := reconstructing(nil)
	packWith(t, r, root, dir, pack.Rebuild)
	kind := scanOf(r)
	was := kind.Restore
	for _, c := range []struct {
		what    string
		restore func(b []byte) ([]byte, error)
		says    string
	}{
		{"bad data", func([]byte) ([]byte, error) { return nil, transcode.Errorf(transcode.ErrBad, "no reconstruction") }, "no reconstruction"},
		{"too long", func(b []byte) ([]byte, error) { return append(b, 0), nil }, "bytes where"},
		{"too short", func(b []byte) ([]byte, error) { return b[1:], nil }, "bytes where"},
		{"panic", func([]byte) ([]byte, error) { panic("index out of range") }, "panic"},
		{"limit", func([]byte) ([]byte, error) {
			return nil, transcode.Errorf(transcode.ErrUnsupported, "the limit is 100")
		}, "the limit is 100"},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := fromStore(t, r, dir, nil)
			kind.Restore = func(ctx context.Context, whole, reconstruction []byte, lim transcode.Limits) ([]byte, error) {
				b, err := was(ctx, whole, reconstruction, lim)
				if err != nil {
					return nil, err
				}
				return c.restore(b)
			}
			file, v := f.file(t, "a.jpg"), view(t, "original")
			_, err := f.read(1, file, v)
			limit := c.what == "limit" // lower than when it was packed, and nobody's fault
			if errors.Is(err, transcode.ErrInternal) == limit || errors.Is(err, transcode.ErrUnsupported) != limit || isFault(err) && !limit || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want an internal error that says %q", err, c.says)
			}
			kind.Restore = was
			if got, err := f.read(1, file, v); !limit && (err != nil || !bytes.Equal(got, want(t, root, "a.jpg", v))) {
				t.Errorf("tried again: %d bytes, %v", len(got), err)
			}
		})
	}
}
