package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
	"github.com/pipefs/pipefs/transcode"
)

func TestReaderRanges(t *testing.T) {
	r := random(t)
	src := newSource()
	for i := range 20 {
		src.put(fmt.Sprintf("%02d.jpg", i), noise(r, r.IntN(300_000)))
	}
	for _, o := range []PackOptions{{PackBytes: 500_000}, {RecordImages: 6, PackBytes: 1_000_000}} {
		dir := tempDir(t)
		mustPack(t, dir, src, o)
		s, err := Open(dir, Options{Logger: quiet, MaxOpenPacks: 2})
		testenv.Must(t, err)
		before := openFiles(t)
		readRanges(t, s, src, r.Uint64())
		if n := openFiles(t) - before; n > 10 {
			t.Errorf("%d more files are open", n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := openFiles(t); n > before {
			t.Errorf("%d files are open after the store is closed, and were %d", n, before)
		}
	}
}

// readRanges has 64 goroutines read at random places at once.
func readRanges(t *testing.T, s *Store, src *memSource, seed uint64) {
	type view struct {
		r    *Reader
		want []byte
	}
	var views []view
	for name, f := range src.files {
		if f.kind == Dir {
			continue
		}
		got, err := s.Lookup(name)
		testenv.Must(t, err)
		rep := got.Representation("scan@fake1")
		for level := range len(rep.Levels) + 1 {
			r, err := s.Reader(*rep, level)
			testenv.Must(t, err)
			defer r.Close()
			views = append(views, view{r, splitLevel(fakeSplit(f.data), level)})
		}
	}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			buf := make([]byte, 200_000)
			for range 40 {
				v := views[rng.IntN(len(views))]
				if rng.IntN(8) == 0 {
					v.r.Fetch()
				}
				off := rng.IntN(len(v.want) + 2)
				if rng.IntN(3) == 0 {
					off = off / 4096 * 4096
				}
				p := buf[:rng.IntN(len(buf))]
				n, err := v.r.ReadAt(p, int64(off))
				want := v.want[min(off, len(v.want)):]
				want = want[:min(len(want), len(p))]
				if short := len(want) < len(p); !bytes.Equal(p[:n], want) || short != errors.Is(err, io.EOF) || !short && err != nil {
					t.Errorf("read %d at %d of %d: %d, %v", len(p), off, len(v.want), n, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestPreads: what lies side by side in a pack is read together, up to maxRun; packs are opened when they are
// read, and no more of them stay open than are to.
func TestPreads(t *testing.T) {
	src := newSource()
	src.put("1.bin", noise(random(t), 10*ChunkSize+100))
	src.put("2.jpg", noise(random(t), 600_000)) // parts of 120,000, 180,000, none and 300,000 bytes
	src.put("3.bin", []byte("short"))
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{PackBytes: 1})
	ops := map[string]int{}
	fsys := &faultfs.FS{Base: vfs.OS, Inject: func(op faultfs.Op) error { ops[op.Kind]++; return nil }}
	s, err := Open(dir, Options{FS: fsys, Logger: quiet, MaxOpenPacks: 2})
	testenv.Must(t, err)
	all := map[string]*Reader{}
	for name, key := range map[string]string{"1.bin": "original", "2.jpg": "scan@fake1", "3.bin": "original"} {
		e, err := s.Lookup(name)
		testenv.Must(t, err)
		all[name], err = s.Reader(*e.Representation(key), 0)
		testenv.Must(t, err)
	}
	b := make([]byte, 1<<20)
	for i, c := range []struct {
		name         string
		off, n       int64
		reads, opens int
	}{
		{"1.bin", 0, 1, 1, 1}, {"1.bin", 5, ChunkSize - 5, 1, 0}, {"1.bin", 0, ChunkSize, 1, 0}, {"1.bin", 5, ChunkSize, 2, 0},
		{"1.bin", 5, 3 * ChunkSize, 3, 0}, {"1.bin", 0, 4 * ChunkSize, 1, 0}, {"1.bin", 0, 4*ChunkSize + 1, 2, 0},
		{"1.bin", 9 * ChunkSize, ChunkSize + 100, 1, 0}, {"1.bin", 0, 10*ChunkSize + 100, 3, 0},
		{"2.jpg", 0, 600_002, 3, 1}, {"2.jpg", 600_000, 2, 0, 0}, {"2.jpg", 120_000, 180_000, 1, 0}, {"1.bin", 0, 1, 1, 0},
		{"3.bin", 0, 5, 1, 1}, {"2.jpg", 0, 1, 1, 0}, {"1.bin", 0, 1, 1, 1}, {"1.bin", 0, 1, 1, 0},
	} {
		clear(ops)
		if n, err := all[c.name].ReadAt(b[:c.n], c.off); int64(n) != c.n || err != nil {
			t.Errorf("%d: %d, %v", i, n, err)
		}
		if ops["open"] != c.opens || ops["read"] != c.reads+2*c.opens { // what is opened is checked: header and trailer
			t.Errorf("%d, %+v: %v", i, c, ops)
		}
	}
	k := all["1.bin"].pack
	_, err = k.acquire()
	testenv.Must(t, errors.Join(err, s.Close()))
	if k.release(); len(fsys.Held()) > 0 {
		t.Errorf("open after Close and the last read: %q", fsys.Held())
	}
}

func openFiles(t *testing.T) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(names)
}

func TestReaderDoesNotAllocate(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector makes pools forget")
	}
	src := newSource()
	src.put("a.jpg", noise(random(t), 600_000))
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{})
	s := mustOpen(t, dir)
	got, err := s.Lookup("a.jpg")
	testenv.Must(t, err)
	r, err := s.Reader(*got.Representation("scan@fake1"), 0)
	testenv.Must(t, err)
	buf := make([]byte, r.Size())
	for _, off := range []int64{0, 1, 70_000, 599_000} {
		n := testing.AllocsPerRun(100, func() {
			if _, err := r.ReadAt(buf[:r.Size()-off], off); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%v allocations for a read at %d", n, off)
		}
	}
}

// Of a damaged blob the chunks before the damage can be read, and those after
// it; what could not be checked is zero.
func TestReaderDamage(t *testing.T) {
	src := newSource()
	data := noise(random(t), 10*ChunkSize)
	src.put("a.bin", data)
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{})
	s := mustOpen(t, dir)
	got, err := s.Lookup("a.bin")
	testenv.Must(t, err)
	part := got.Representations[0].Parts[0]
	name := firstPack(t, dir)
	whole, err := os.ReadFile(name)
	testenv.Must(t, err)
	whole[part.Off+4*ChunkSize+99] ^= 1
	write(t, name, whole)
	r, err := s.Reader(got.Representations[0], 0)
	testenv.Must(t, err)
	buf := bytes.Repeat([]byte{0xaa}, len(data))
	n, err := r.ReadAt(buf, 0)
	var bad *CorruptError
	if n != 4*ChunkSize || !errors.As(err, &bad) || bad.Pack != filepath.Base(name) || bad.Path != "a.bin" || bad.Offset != part.Off+4*ChunkSize {
		t.Errorf("%d, %v", n, err)
	}
	if !bytes.Equal(buf[:n], data[:n]) || slices.Max(buf[n:]) != 0 {
		t.Error("wrong bytes")
	}
	if _, err := r.ReadAt(buf[:5*ChunkSize], 5*ChunkSize); err != nil || !bytes.Equal(buf[:5*ChunkSize], data[5*ChunkSize:]) {
		t.Errorf("behind the damage: %v", err)
	}
	if _, err := r.ReadAt(buf[:1], 4*ChunkSize); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte of the damaged chunk: %v", err)
	}
	// A pack that is cut while it is open is an error, not a signal.
	testenv.Must(t, os.Truncate(name, part.Off+100))
	if n, err := r.ReadAt(buf, 0); n != 0 || !errors.Is(err, ErrCorrupt) {
		t.Errorf("cut: %d, %v", n, err)
	}
}

func TestReaderArguments(t *testing.T) {
	src := newSource()
	src.put("a.jpg", []byte("0123456789"))
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{})
	s := mustOpen(t, dir)
	got, err := s.Lookup("a.jpg")
	testenv.Must(t, err)
	rep := got.Representation("scan@fake1")
	for _, level := range []int{-1, 6} {
		if _, err := s.Reader(*rep, level); err == nil || rep.Size(level) != -1 {
			t.Errorf("level %d: %v, size %d", level, err, rep.Size(level))
		}
	}
	r, err := s.Reader(*rep, 2)
	if err != nil || r.Size() != 7 || rep.Size(2) != 7 {
		t.Fatalf("%v, %d", err, r.Size())
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a negative offset")
	}
	if n, err := r.ReadAt(make([]byte, 1), 7); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if n, err := r.ReadAt(nil, 0); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	testenv.Must(t, s.Close())
	if _, err := r.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if _, err := s.Lookup("a.jpg"); !errors.Is(err, ErrClosed) {
		t.Errorf("lookup after close: %v", err)
	}
}

// Two readers and a writer at once: each reader sees one packing as a whole.
func TestReadersBesideWriter(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	source := func(version int) *memSource {
		src := newSource()
		for i := range 8 {
			src.put(fmt.Sprintf("%d.txt", i), fmt.Appendf(nil, "version %d of file %d", version, i))
			f := src.files[fmt.Sprintf("%d.txt", i)]
			f.id = ident(inode(f.id), f.id.Size, int64(version))
			src.files[fmt.Sprintf("%d.txt", i)] = f
		}
		return src
	}
	mustPack(t, dir, source(0), PackOptions{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for last := 0; ; {
				select {
				case <-stop:
					return
				default:
				}
				s, err := Open(dir, Options{Logger: quiet})
				if err != nil {
					t.Error(err)
					return
				}
				got, err := s.Lookup("0.txt")
				if err == nil {
					version := int(mtime(got.Source))
					if version < last {
						t.Errorf("version %d after %d", version, last)
					}
					last = version
					_, err = compareStore(s, source(version))
				}
				if err := errors.Join(err, s.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for version := 1; version <= 20; version++ {
		mustPack(t, dir, source(version), PackOptions{})
	}
	close(stop)
	wg.Wait()
}

// A split that contradicts itself is refused before it is stored.
func TestBadSplits(t *testing.T) {
	for i, s := range []transcode.Split{
		{Data: []byte("abc"), Ends: []int{2}},
		{Data: []byte("abc"), Ends: []int{2, 1, 3}},
		{Data: []byte("abc"), Ends: []int{4}},
		{Data: []byte("abc"), Ends: []int{3}, Levels: []int{2}},
		{Data: []byte("abc"), Tail: make([]byte, maxTail+1)},
	} {
		e := Encoded{Representations: []EncodedRepresentation{{Key: "k", Split: s}}}
		if _, err := newItem(Sample{Path: "a", Kind: File}, e); err == nil {
			t.Errorf("split %d is accepted", i)
		}
	}
	twice := EncodedRepresentation{Key: "k"}
	for _, e := range []Encoded{
		{Representations: []EncodedRepresentation{{}}},
		{Representations: []EncodedRepresentation{twice, twice}},
	} {
		if _, err := newItem(Sample{Path: "a", Kind: File}, e); err == nil {
			t.Errorf("%+v is accepted", e)
		}
	}
	entry := appendBytes([]byte{1}, appendEntry(nil, &Sample{Path: "/a", Kind: Dir}))
	if _, err := decodeRecord(entry, place{}); err == nil {
		t.Error("an entry with a bad path is read")
	}
	for _, p := range []string{"/a", "a/", "a//b", "../a", "a/./b", "a\x00b", ""} {
		if err := checkPath(p, File); err == nil {
			t.Errorf("path %q is accepted", p)
		}
	}
}
