package ahead

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// far is a limit by which each read takes a round trip. Reads overlap.
type far struct {
	trip        time.Duration
	now, most   atomic.Int64
	reads, size atomic.Int64
	gate        atomic.Pointer[chan struct{}] // reads wait until it is closed
}

func (f *far) Begin() time.Time {
	f.reads.Add(1)
	n := f.now.Add(1)
	for most := f.most.Load(); n > most && !f.most.CompareAndSwap(most, n); most = f.most.Load() {
	}
	return time.Now()
}

func (f *far) Done(_ time.Time, n int) {
	f.size.Add(int64(n))
	if gate := f.gate.Load(); gate != nil {
		<-*gate
	}
	time.Sleep(f.trip)
	f.now.Add(-1)
}

// fixture is a dataset that is far away, and the hints for it.
type fixture struct {
	*testing.T
	root   string
	names  []string
	far    *far
	server *serve.Server
	queue  *Queue
	log    *bytes.Buffer
}

// newFixture has so many files of so many bytes.
func newFixture(t *testing.T, files, size int, budget int64) *fixture {
	t.Helper()
	f := &fixture{T: t, root: t.TempDir(), far: &far{trip: time.Millisecond}, log: &bytes.Buffer{}}
	for i := range files {
		name := fmt.Sprintf("%04d.jpg", i)
		f.names = append(f.names, name)
		testenv.Must(t, os.WriteFile(filepath.Join(f.root, name), bytes.Repeat([]byte{byte(i), byte(i >> 8)}, size/2), 0o644))
	}
	d, err := source.Open(f.root, source.Options{Limit: f.far})
	testenv.Must(t, err)
	t.Cleanup(func() { d.Close() })
	f.server, err = serve.New(serve.Options{Registry: codecs.Default(transcode.Limits{}), Source: d, Dataset: d})
	testenv.Must(t, err)
	t.Cleanup(func() { f.server.Close() })
	f.queue = New(Options{Server: f.server, Budget: budget, Log: slog.New(slog.NewTextHandler(f.log, nil))})
	t.Cleanup(func() { f.queue.Close() })
	f.queue.Use(f)
	return f
}

// Target implements [Tree]: the files have their places as keys.
func (f *fixture) Target(_ context.Context, name string) (serve.Target, error) {
	i := slices.Index(f.names, name)
	if i < 0 {
		return serve.Target{}, iofs.ErrNotExist
	}
	a, err := f.server.Stat(name, false)
	key := serve.Key(1<<32 + i)
	return serve.Target{Key: key, Original: key, File: serve.File{Path: name, Identity: a.Identity}}, err
}

// View implements [Tree].
func (f *fixture) View(string) (transcode.Pipeline, error) { return transcode.Pipeline{}, nil }

// Listed implements [Tree].
func (f *fixture) Listed(_ transcode.Pipeline, name string) (string, error) { return name, nil }

// open opens a file as a mount does.
func (f *fixture) open(name string) (*serve.Content, error) {
	t, err := f.Target(f.Context(), name)
	if err != nil {
		return nil, err
	}
	h, err := f.server.Resolve(f.Context(), t.Key, t.File, t.View, serve.Sized)
	if err != nil {
		return nil, err
	}
	return h.Open(f.Context())
}

// read reads a file, and compares its bytes.
func (f *fixture) read(names ...string) {
	f.Helper()
	for _, name := range names {
		c, err := f.open(name)
		testenv.Must(f, err)
		got := make([]byte, c.Size())
		if _, err := c.ReadAt(got, 0); err != nil {
			f.Errorf("%s: %v", name, err)
		}
		c.Release()
		want, err := os.ReadFile(filepath.Join(f.root, name))
		testenv.Must(f, err)
		if !bytes.Equal(got, want) {
			f.Errorf("%s has other bytes", name)
		}
	}
}

// hint sends a message.
func (f *fixture) hint(stream string, replace bool, names ...string) {
	f.Helper()
	testenv.Must(f, f.queue.Take(message(header{V: Version, Stream: stream, Replace: replace}, []byte(strings.Join(names, "\x00")+"\x00"))))
}

func message(h header, rest []byte) []byte {
	line, err := json.Marshal(h)
	if err != nil {
		panic(err)
	}
	return append(append(line, '\n'), rest...)
}

// until waits until the counters are as they should be.
func (f *fixture) until(what string, is func(Stats) bool) {
	f.Helper()
	testenv.Eventually(f, func() error {
		if s := f.queue.Stats(); !is(s) {
			return fmt.Errorf("%s: %+v", what, s)
		}
		return nil
	})
}

// loaded reports whether a file is loaded, and nobody has read it.
func (f *fixture) loaded(name string) bool {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	for _, s := range f.queue.streams {
		if slices.ContainsFunc(s.unread, func(of *file) bool { return of.path == name && of.ahead != nil }) {
			return true
		}
	}
	return false
}

// manyTree has so many names in directories of 1,000.
type manyTree struct{ n int }

func (t manyTree) Version() (uint64, error) { return 1, nil }

func (t manyTree) Members(dir string) (members []epoch.Member, err error) {
	if dir == "" {
		for i := range (t.n + 999) / 1000 {
			members = append(members, epoch.Member{Name: fmt.Sprintf("n%08d", i), Dir: true})
		}
		return members, nil
	}
	var class int
	if _, err := fmt.Sscanf(dir, "n%08d", &class); err != nil {
		return nil, err
	}
	for i := class * 1000; i < min(t.n, class*1000+1000); i++ {
		members = append(members, epoch.Member{Name: path.Base(t.Path(uint32(i))), ID: uint32(i)})
	}
	return members, nil
}

func (t manyTree) Path(id uint32) string {
	return fmt.Sprintf("n%08d/n%08d_%d.JPEG", id/1000, id/1000, id%1000)
}

func (t manyTree) Listed(_ transcode.Pipeline, name string) (string, error) { return name, nil }

func order(all ...uint32) (rest []byte) {
	for _, i := range all {
		rest = binary.LittleEndian.AppendUint32(rest, i)
	}
	return rest
}

// together runs so many of a function at once.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// gated is a tree whose paths are looked up when the gate is closed.
type gated struct {
	*fixture
	gate chan struct{}
}

// Target implements [Tree].
func (g gated) Target(ctx context.Context, name string) (serve.Target, error) {
	<-g.gate
	return g.fixture.Target(ctx, name)
}

// flatTree has files and no directories.
type flatTree struct {
	manyTree
	names []string
}

func (t flatTree) Members(string) (members []epoch.Member, err error) {
	for i, name := range t.names {
		members = append(members, epoch.Member{Name: name, ID: uint32(i)})
	}
	return members, nil
}

func (t flatTree) Path(id uint32) string { return t.names[id] }
