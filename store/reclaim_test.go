package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
)

const reclaimPack = 200_000

// bounded checks that no more of the overlay is stale than is of use.
func bounded(t *testing.T, v *Overlay) {
	t.Helper()
	on := int64(0)
	names, err := filepath.Glob(filepath.Join(v.dir, "*.pack*"))
	testenv.Must(t, err)
	for _, name := range names {
		st, err := os.Stat(name)
		testenv.Must(t, err)
		on += st.Size()
	}
	if on > v.Bytes() || v.out.w == nil && on != v.Bytes() {
		t.Errorf("%d bytes on disk, counted are %d", on, v.Bytes())
	}
	live := int64(0)
	for _, in := range v.byPack() {
		live += in.bytes
	}
	if v.Bytes() > 2*live || v.liveBytes() != live {
		t.Errorf("%d bytes, %d of use, counted are %d", v.Bytes(), live, v.liveBytes())
	}
}

// TestReclaim: of samples that changed and that are gone nothing takes space for long;
// everything else is there, for who has it open as well, and when opened again.
func TestReclaim(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	v := mustOverlay(t, dir, OverlayOptions{PackBytes: reclaimPack})
	const samples = 30
	last := make([]overlayItem, samples)
	r := random(t)
	for i := range samples {
		last[i] = overlayItem{i, 1}
		testenv.Must(t, last[i].put(v))
	}
	held, err := last[7].open(v, 0)
	testenv.Must(t, err)
	was, before := last[7], last[8]
	path, id, _ := before.key()
	rep, err := v.Get(path, id, "scan@1")
	testenv.Must(t, err)
	for version := 2; version < 60; version++ {
		for range r.IntN(2 * samples) {
			i := r.IntN(samples)
			if i == before.i {
				continue
			}
			last[i].version = version
			testenv.Must(t, last[i].put(v))
		}
		testenv.Must(t, v.Reclaim(t.Context(), nil))
		bounded(t, v)
		for _, s := range last {
			if err := s.get(v); err != nil {
				t.Fatalf("%v: %v", s, err)
			}
		}
		if version%8 == 0 {
			testenv.Must(t, errors.Join(was.read(held, 0), v.Close()))
			v = mustOverlay(t, dir, OverlayOptions{PackBytes: reclaimPack})
			if held, err = last[7].open(v, 0); err != nil {
				t.Fatal(err)
			}
			was = last[7]
		}
	}
	if err := was.read(held, 0); err != nil {
		t.Errorf("open since before: %v", err)
	}
	moved, err := v.Reader(rep, 0)
	if err == nil {
		err = before.read(moved, 0)
	}
	if err != nil {
		t.Errorf("found before its pack was rewritten: %v", err)
	}
	gone := func(path string, _ Identity, key string) bool { return path >= "0015" && key == "scan@1" }
	testenv.Must(t, v.Reclaim(t.Context(), gone))
	bounded(t, v)
	for i, s := range last {
		if err := s.get(v); i < 15 && !errors.Is(err, ErrNotFound) || i >= 15 && err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
	if err := v.Reclaim(t.Context(), func(string, Identity, string) bool { return false }); err != nil || v.Bytes() != 0 {
		t.Errorf("%v, %d bytes of nothing", err, v.Bytes())
	}
	if v.Reclaimed() < 100_000 {
		t.Errorf("%d reclaimed", v.Reclaimed())
	}
}

// TestTend: a mount whose samples change goes on keeping, however small its budget; one
// whose samples went has room when it is made again.
func TestTend(t *testing.T) {
	dir := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		o := OverlayOptions{PackBytes: reclaimPack, MaxBytes: 1_000_000}
		v := mustOverlay(t, dir, o)
		tend := func(current func(string, Identity, string) bool) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			var ended sync.WaitGroup
			ended.Go(func() { v.Tend(ctx, current) })
			return func() { cancel(); ended.Wait() }
		}
		all := func(string, Identity, string) bool { return true }
		stop := tend(all)
		for version := range 20 {
			for i := range 10 {
				if err := (overlayItem{i, version}).put(v); err != nil {
					t.Fatalf("sample %d changed %d times: %v", i, version, err)
				}
				synctest.Wait()
			}
		}
		stop()
		// Now other samples: there is no room until nobody can ask for these.
		fill := func() (n int) {
			for i := 100; i < 200; i++ {
				if err := (overlayItem{i, 1}).put(v); errors.Is(err, ErrFull) {
					return i - 100
				} else if err != nil {
					t.Fatal(err)
				}
			}
			return 100
		}
		before := fill()
		testenv.Must(t, v.Close())
		v = mustOverlay(t, dir, o)
		stop = tend(func(path string, _ Identity, _ string) bool { return path >= "0100" })
		synctest.Wait()
		for i := 100; i < 100+before; i++ {
			if err := (overlayItem{i, 1}).get(v); err != nil {
				t.Error(err)
			}
		}
		if after := fill(); after <= before {
			t.Errorf("room for %d samples, and for %d beside those that are gone", after, before)
		}
		stop()
		_ = v.Close()
	})
}

// TestReclaimConcurrent: readers and writers go on meanwhile.
func TestReclaimConcurrent(t *testing.T) {
	t.Parallel()
	v := mustOverlay(t, tempDir(t), OverlayOptions{PackBytes: reclaimPack, MaxOpenPacks: 2})
	const samples = 12
	ctx, cancel := context.WithCancel(t.Context())
	var reclaiming, others sync.WaitGroup
	reclaiming.Go(func() { v.Tend(ctx, nil) })
	for g := range 4 {
		others.Go(func() {
			for version := range 25 {
				for i := g; i < samples; i += 4 { // each sample has one writer
					s := overlayItem{i, version}
					if err := errors.Join(s.put(v), s.get(v), s.get(v)); err != nil {
						t.Errorf("%v: %v", s, err)
					}
				}
			}
		})
	}
	others.Wait()
	cancel()
	reclaiming.Wait()
	if err := v.Reclaim(t.Context(), nil); err != nil {
		t.Error(err)
	}
	bounded(t, v)
}

// staleOverlay is one that is closed, and of which half is stale.
func staleOverlay(t *testing.T, dir string) (live []overlayItem) {
	t.Helper()
	v := mustOverlay(t, dir, OverlayOptions{PackBytes: reclaimPack})
	for version := 1; version < 4; version++ {
		for i := range 15 {
			if i%4 == 0 && version > 1 {
				continue
			}
			testenv.Must(t, (overlayItem{i, version}).put(v))
		}
	}
	for i := range 15 {
		version := 3
		if i%4 == 0 {
			version = 1
		}
		live = append(live, overlayItem{i, version})
	}
	testenv.Must(t, v.Close())
	return live
}

// reclaimIn opens an overlay and reclaims its space.
func reclaimIn(dir string, fsys vfs.FS) (*Overlay, error) {
	v, err := OpenOverlay(dir, OverlayOptions{FS: fsys, Logger: quiet, PackBytes: reclaimPack})
	if err != nil {
		return nil, err
	}
	return v, v.Reclaim(context.Background(), nil)
}

// reclaims checks that nothing is lost, whatever happened before, and that the space can
// still be reclaimed.
func reclaims(t *testing.T, dir, what string, live []overlayItem) {
	t.Helper()
	v, err := reclaimIn(dir, vfs.OS)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, s := range live {
		if err := s.get(v); err != nil {
			t.Errorf("%s: %v: %v", what, s, err)
		}
	}
	bounded(t, v)
	_ = v.Close()
}

// Every operation in turn fails while space is reclaimed.
func TestEveryOperationOfReclaimFails(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	start := tempDir(t)
	live := staleOverlay(t, start)
	failed := eachFault(t, start, 1, func(dir string, fsys *faultfs.FS) error {
		v, err := reclaimIn(dir, fsys)
		if v != nil {
			fsys.Inject = func(faultfs.Op) error { return nil }
			for _, s := range live {
				if err := s.get(v); err != nil {
					t.Errorf("operation %d: %v: %v", fsys.Ops(), s, err)
				}
			}
			_ = v.Close()
		}
		return err
	}, func(dir, what string, _, _ error) { reclaims(t, dir, what, live) })
	if failed < 15 {
		t.Errorf("only %d faults hit", failed)
	}
}

// TestReclaimEnds: whenever it is told to end, it waits for the disk no more than the step takes
// that it is in (a pack is sealed: the file, twice its directory), reads no further pack, and loses nothing.
func TestReclaimEnds(t *testing.T) {
	t.Parallel()
	start := tempDir(t)
	live := staleOverlay(t, start)
	all := func(string, Identity, string) bool { return true }
	for n, ended := int64(1), false; !ended; n++ {
		dir := filepath.Join(tempDir(t), "overlay")
		testenv.Must(t, os.CopyFS(dir, os.DirFS(start)))
		ctx, cancel := context.WithCancel(t.Context())
		waits, opens := 0, 0
		fsys := &faultfs.FS{Base: vfs.OS, Inject: func(faultfs.Op) error { return nil }}
		v := mustOverlay(t, dir, OverlayOptions{FS: fsys, PackBytes: reclaimPack})
		steps := int64(0) // without those that only read
		fsys.Inject = func(op faultfs.Op) error {
			if op.Kind != "read" && op.Kind != "write" {
				steps++
			}
			switch {
			case steps < n:
			case ctx.Err() == nil:
				cancel()
			case op.Kind == "sync" || op.Kind == "syncdir":
				waits++
			case op.Kind == "open":
				opens++
			}
			return nil
		}
		err := v.Reclaim(ctx, all)
		if ended = steps < n; ended && err != nil {
			t.Error(err)
		}
		if waits > 3 || opens > 2 {
			t.Errorf("told to end at step %d, it waits for the disk %d times, and opens %d files", n, waits, opens)
		}
		cancel()
		testenv.Must(t, v.Close())
		reclaims(t, dir, fmt.Sprintf("ended at step %d", n), live)
	}
}

// The power fails before every operation in turn.
func TestEveryOperationOfReclaimCrashes(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	disk := tempDir(t)
	live := staleOverlay(t, filepath.Join(disk, "overlay"))
	crashes, end := eachCrash(t, disk, func(fsys vfs.FS) error {
		v, err := reclaimIn(filepath.Join(disk, "overlay"), fsys)
		return errors.Join(err, v.Close())
	}, func(disk, what string) { reclaims(t, filepath.Join(disk, "overlay"), what, live) })
	reclaims(t, filepath.Join(end, "overlay"), "in the end", live)
	if crashes < 10 {
		t.Errorf("%d crashes", crashes)
	}
}

// TestOverlayOfAnotherVersion is discarded with a line, and used from then on.
func TestOverlayOfAnotherVersion(t *testing.T) {
	newer := func(pack []byte) []byte {
		binary.LittleEndian.PutUint32(pack[8:], packVersion+1)
		binary.LittleEndian.PutUint32(pack[24:], sum(pack[:24]))
		return pack
	}
	first := func([]byte) []byte { // the header of version 1: number, flags, checksum
		pack := binary.LittleEndian.AppendUint32([]byte(packMagic), 1)
		pack = append(pack, 1, 0, 0, 0, 0, 0, 0, 0)
		return append(binary.LittleEndian.AppendUint32(pack, sum(pack)), "records"...)
	}
	for what, c := range map[string]struct {
		suffix string // of a pack that is there
		as     string // its name then; "" is the same
		become func([]byte) []byte
	}{
		"a newer pack":          {"", "", newer},
		"a newer part":          {partSuffix, "", newer},
		"a pack of version 1":   {"", "000001.pack", first},
		"a part of version 1":   {partSuffix, "", first},
		"a sealed one, renamed": {"", "000001.pack", func(b []byte) []byte { return b }},
	} {
		dir := tempDir(t)
		o := OverlayOptions{PackBytes: 1}
		if c.suffix == partSuffix {
			o.PackBytes = 1 << 30
		}
		v := mustOverlay(t, dir, o)
		for i := range 9 {
			testenv.Must(t, putItem(v, i))
		}
		_ = v.Close()
		names, err := filepath.Glob(filepath.Join(dir, "*.pack"+c.suffix))
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		pack, err := os.ReadFile(names[0])
		testenv.Must(t, err)
		if c.as != "" {
			testenv.Must(t, os.Remove(names[0]))
			names[0] = filepath.Join(dir, c.as)
		}
		write(t, names[0], c.become(pack))
		log, lines := logLines()
		v, err = OpenOverlay(dir, OverlayOptions{Logger: log})
		testenv.Must(t, err)
		if v.Bytes() != 0 || v.count() != 0 || strings.Count(lines.String(), "discarded") != 1 {
			t.Errorf("%s: %d bytes, %d results, %s", what, v.Bytes(), v.count(), lines)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*.pack*")); len(left) > 0 {
			t.Errorf("%s: left are %v", what, left)
		}
		if err := errors.Join(putItem(v, 1), getItem(v, 1), v.Close()); err != nil {
			t.Error(err)
		}
	}
}
