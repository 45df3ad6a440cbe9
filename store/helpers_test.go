package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// Tests that start processes are not parallel: until it executes its program a child has
// the locks of its parent.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PIPEFS_TEST_PACK"); dir != "" {
		childPack(dir)
		return
	}
	if dir := os.Getenv("PIPEFS_TEST_READ"); dir != "" {
		childRead(dir)
		return
	}
	slog.SetDefault(quiet)
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.DiscardHandler)

// random returns a generator of the test's own choices.
func random(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(testenv.Seed(t), 1))
}

func noise(r *rand.Rand, n int) []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], r.Uint64())
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// memSource is a dataset in memory.
type memSource struct {
	mu      sync.Mutex
	files   map[string]memFile
	onRead  func(path string) // called before a file is read
	walkErr map[string]error
	readErr map[string]error
	reads   int
}

type memFile struct {
	kind Kind
	mode uint32 // what differs from the usual one
	data []byte
	id   Identity
}

// ident is an identity as a directory makes it.
func ident(inode uint64, size, mtime int64) (id Identity) {
	id.Size = size
	binary.LittleEndian.PutUint64(id.Version[:], inode)
	binary.LittleEndian.PutUint64(id.Version[8:], uint64(mtime))
	binary.LittleEndian.PutUint64(id.Version[16:], uint64(mtime))
	return id
}

func inode(id Identity) uint64 { return binary.LittleEndian.Uint64(id.Version[:]) }
func mtime(id Identity) int64  { return int64(binary.LittleEndian.Uint64(id.Version[8:])) }

func newSource() *memSource {
	s := &memSource{files: map[string]memFile{}, walkErr: map[string]error{}, readErr: map[string]error{}}
	s.files[""] = memFile{kind: Dir, id: ident(1, 0, 0)}
	return s
}

// put adds or replaces a file and its parents.
func (s *memSource) put(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := s.files[dir]; !ok {
			s.files[dir] = memFile{kind: Dir, id: ident(uint64(len(s.files)+1), 0, 0)}
		}
	}
	old := s.files[name]
	s.files[name] = memFile{kind: File, data: data, id: ident(uint64(len(s.files)+1), int64(len(data)), mtime(old.id)+1_000)}
}

func (s *memSource) mkdir(name string) {
	s.files[name] = memFile{kind: Dir, id: ident(uint64(len(s.files)+1), 0, 0)}
}

// remove removes a file, or a directory with all that is in it.
func (s *memSource) remove(name string) {
	maps.DeleteFunc(s.files, func(p string, _ memFile) bool { return below(p, name) })
}

func (s *memSource) Walk(ctx context.Context) iter.Seq2[SourceFile, error] {
	return func(yield func(SourceFile, error) bool) {
		s.mu.Lock()
		names := slices.SortedFunc(maps.Keys(s.files), func(a, b string) int {
			return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
		})
		s.mu.Unlock()
		for _, name := range names {
			if err := s.walkErr[name]; err != nil {
				if !yield(SourceFile{Path: name}, err) {
					return
				}
				continue
			}
			s.mu.Lock()
			f := s.files[name]
			s.mu.Unlock()
			mode := uint32(0o644)
			if f.kind == Dir {
				mode = 0o755
			}
			verbatim := path.Ext(name) == ".txt"
			if !yield(SourceFile{Path: name, Kind: f.kind, Mode: mode ^ f.mode, Identity: f.id, Verbatim: verbatim}, nil) {
				return
			}
		}
	}
}

func (s *memSource) Read(ctx context.Context, name string) ([]byte, Identity, error) {
	if s.onRead != nil {
		s.onRead(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if err := s.readErr[name]; err != nil {
		return nil, Identity{}, err
	}
	f, ok := s.files[name]
	if !ok {
		return nil, Identity{}, fs.ErrNotExist
	}
	return f.data, f.id, nil
}

// Copy writes in pieces that are no multiples of anything.
func (s *memSource) Copy(ctx context.Context, name string, w io.Writer) (Identity, error) {
	data, id, err := s.Read(ctx, name)
	for piece := range slices.Chunk(data, 33_001) {
		if err == nil {
			_, err = w.Write(piece)
		}
	}
	return id, err
}

// fakeEncoder keeps every file, and cuts those named .jpg into scans.
type fakeEncoder struct {
	id    string // of the implementation
	delay time.Duration
}

func (e fakeEncoder) scanKey() string { return "scan@fake" + e.id }

func (e fakeEncoder) Encode(ctx context.Context, name string, data []byte) (Encoded, error) {
	time.Sleep(e.delay)
	if bytes.HasPrefix(data, []byte("ERROR")) {
		return Encoded{}, errors.New("an encoder's error")
	}
	if bytes.HasPrefix(data, []byte("PANIC")) {
		panic("an encoder's panic")
	}
	out := Encoded{Representations: []EncodedRepresentation{{Key: "original", Split: transcode.Split{Data: data}}}}
	switch path.Ext(name) {
	case ".bad":
		out.Fault = "no codec: " + name
	case ".jpg":
		out.Info = transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: len(data), Height: 1, Scannable: true}
		out.Representations = append(out.Representations, EncodedRepresentation{Key: e.scanKey(), Split: fakeSplit(data)})
	}
	return out, nil
}

// fakeSplit is a split of the reversed data; the third scan is empty, and there
// are two arguments that take the same parts.
func fakeSplit(data []byte) transcode.Split {
	rev := slices.Clone(data)
	slices.Reverse(rev)
	n := len(rev)
	return transcode.Split{
		Data: rev, Ends: []int{n / 5, n / 2, n / 2, n}, Levels: []int{1, 2, 2, 3, 4}, Tail: []byte{0xff, 0xd9},
	}
}

func (e fakeEncoder) Current(s *Sample) bool {
	want := 1
	if path.Ext(s.Path) == ".jpg" {
		if want = 2; s.Representation(e.scanKey()) == nil {
			return false
		}
	}
	return len(s.Representations) == want
}

// generate makes a dataset of n files in a few directories.
func generate(r *rand.Rand, n, size int) *memSource {
	s := newSource()
	s.mkdir("empty")
	for i := range n {
		ext := []string{".jpg", ".jpg", ".jpg", ".txt", ".bad"}[i%5]
		name := fmt.Sprintf("class%d/%04d%s", i%3, i, ext)
		if i%7 == 0 {
			name = fmt.Sprintf("deep/er/%d/%04d%s", i%2, i, ext)
		}
		s.put(name, noise(r, r.IntN(size)))
	}
	if n > 3 {
		s.put("class0/zero.jpg", nil)
		s.put("top.txt", []byte("at the top"))
	}
	return s
}

func mustPack(t testing.TB, dir string, src Source, o PackOptions) Report {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	packs := filepath.Join(dir, packsName)
	wereN, wereBytes, whole := packed(t, packs)
	rep, err := Pack(context.Background(), dir, src, fakeEncoder{id: "1"}, o)
	if err != nil {
		t.Fatalf("pack: %v", err)
	}
	if n, bytes, _ := packed(t, packs); whole && (rep.Packs != n-wereN || rep.Bytes != bytes-wereBytes || rep.Salvaged > 0) {
		t.Errorf("%d packs of %d bytes came, and it is reported: %+v", n-wereN, bytes-wereBytes, rep)
	}
	return rep
}

// packed is how many sealed packs of how many bytes lie in a directory; whole is that there is no other.
func packed(t testing.TB, dir string) (n int, bytes int64, whole bool) {
	t.Helper()
	sealed, unfinished, err := listPacks(vfs.OS, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, p := range sealed {
		size, err := vfs.OS.Size(filepath.Join(dir, p.String()))
		testenv.Must(t, err)
		bytes += size
	}
	return len(sealed), bytes, len(unfinished) == 0
}

func mustOpen(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{Logger: quiet})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// compareStore returns how a store differs from the dataset that it was packed
// from. Errors of the class ErrCorrupt are counted, not returned.
func compareStore(s *Store, src *memSource) (corrupt int, err error) {
	children := map[string][]string{}
	for name, f := range src.files {
		if name != "" {
			dir := path.Dir(name)
			if dir == "." {
				dir = ""
			}
			children[dir] = append(children[dir], path.Base(name))
		}
		got, err := s.Lookup(name)
		if errors.Is(err, ErrCorrupt) {
			corrupt++
			continue
		}
		if err != nil {
			return corrupt, err
		}
		if got.Path != name || got.Kind != f.kind || got.Source != f.id {
			return corrupt, fmt.Errorf("%q is stored as %+v", name, got)
		}
		if f.kind == Dir {
			continue
		}
		bad, err := compareSample(s.Reader, &got, f.data)
		corrupt += bad
		if err != nil {
			return corrupt, err
		}
	}
	for name, f := range src.files {
		if f.kind != Dir {
			continue
		}
		list, err := s.List(name)
		if errors.Is(err, ErrCorrupt) {
			corrupt++
			continue
		}
		if err != nil {
			return corrupt, err
		}
		var names []string
		for _, c := range list {
			names = append(names, c.Name)
			if want := src.files[path.Join(name, c.Name)].kind; c.Kind != want {
				return corrupt, fmt.Errorf("%s in %q is listed as a %v", c.Name, name, c.Kind)
			}
		}
		slices.Sort(names)
		slices.Sort(children[name])
		if !slices.Equal(names, children[name]) {
			return corrupt, fmt.Errorf("%q lists %v, want %v", name, names, children[name])
		}
	}
	return corrupt, nil
}

type opener func(Representation, int) (*Reader, error)

// compareSample reads all representations at all levels.
func compareSample(open opener, s *Sample, data []byte) (corrupt int, err error) {
	enc, _ := fakeEncoder{id: "1"}.Encode(context.Background(), s.Path, data)
	if len(enc.Representations) != len(s.Representations) || s.Fault != enc.Fault || s.Info != enc.Info {
		return 0, fmt.Errorf("%q is stored as %+v", s.Path, s)
	}
	for _, r := range enc.Representations {
		rep := s.Representation(r.Key)
		if rep == nil {
			return corrupt, fmt.Errorf("%q has no %s", s.Path, r.Key)
		}
		for level := range len(r.Split.Levels) + 1 {
			got, err := readLevel(open, *rep, level)
			if errors.Is(err, ErrCorrupt) {
				corrupt++
				continue
			}
			if err != nil {
				return corrupt, err
			}
			if want := splitLevel(r.Split, level); !bytes.Equal(got, want) || rep.Size(level) != int64(len(want)) {
				return corrupt, fmt.Errorf("%q %s level %d: %d bytes, want %d, equal: %v", s.Path, r.Key, level, len(got), len(want), bytes.Equal(got, want))
			}
		}
	}
	return corrupt, nil
}

func splitLevel(s transcode.Split, level int) []byte {
	if level == 0 {
		return slices.Concat(s.Data, s.Tail)
	}
	n := s.Levels[level-1]
	end := 0
	if n > 0 {
		end = s.Ends[n-1]
	}
	return slices.Concat(s.Data[:end], s.Tail)
}

func readLevel(open opener, rep Representation, level int) ([]byte, error) {
	r, err := open(rep, level)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := make([]byte, r.Size())
	_, err = r.ReadAt(b, 0)
	return b, err
}

func checkStore(t testing.TB, dir string, src *memSource) {
	t.Helper()
	s, err := Open(dir, Options{Logger: quiet})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer s.Close()
	if corrupt, err := compareStore(s, src); err != nil || corrupt > 0 {
		t.Fatalf("the store differs from its source: %v, %d corrupt", err, corrupt)
	}
	problems, err := Check(context.Background(), dir, Options{Logger: quiet}, nil)
	if err != nil || len(problems) > 0 {
		t.Fatalf("check: %v, %v", problems, err)
	}
}

// packFiles returns the content of all packs by name.
func packFiles(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(dir, packsName, "*"))
	testenv.Must(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		testenv.Must(t, err)
		out[filepath.Base(name)] = b
	}
	return out
}

func samePacks(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// tempDir is a directory in memory where there is one: tests that sync a
// thousand times would wait for the disk otherwise.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pipefs-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
