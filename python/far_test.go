package python_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// far shows a directory at another place, from where each read takes a round trip. What was
// read once is read again: nothing is cached. most is how many reads there were at once.
func far(t testing.TB, dir string, trip time.Duration) (at string, most *atomic.Int64) {
	t.Helper()
	testenv.Mounts(t)
	at = filepath.Join(t.TempDir(), "far")
	testenv.Must(t, os.Mkdir(at, 0o755))
	var st syscall.Stat_t
	testenv.Must(t, syscall.Stat(dir, &st))
	here := &farReads{trip: trip}
	root := &fs.LoopbackRoot{Path: dir, Dev: st.Dev}
	root.RootNode = &farNode{LoopbackNode: fs.LoopbackNode{RootData: root}, here: here}
	forever := time.Hour
	server, err := fs.Mount(at, root.RootNode, &fs.Options{
		EntryTimeout: &forever, AttrTimeout: &forever,
		MountOptions: fuse.MountOptions{FsName: "far", Name: "far", DirectMount: os.Getuid() == 0, MaxReadAhead: 1 << 20, MaxWrite: 1 << 20, DisableSplice: true},
	})
	testenv.Must(t, err)
	t.Cleanup(func() {
		testenv.Eventually(t, server.Unmount)
		server.Wait()
	})
	return at, &here.most
}

// farReads are the reads that there are.
type farReads struct {
	trip      time.Duration
	now, most atomic.Int64
}

type farNode struct {
	fs.LoopbackNode
	here *farReads
}

// WrapChild implements [fs.NodeWrapChilder].
func (n *farNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &farNode{LoopbackNode: fs.LoopbackNode{RootData: child.(*fs.LoopbackNode).RootData}, here: n.here}
}

// Open implements [fs.NodeOpener].
func (n *farNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, _, errno := n.LoopbackNode.Open(ctx, flags)
	return f, fuse.FOPEN_DIRECT_IO, errno
}

// Read implements [fs.NodeReader].
func (n *farNode) Read(ctx context.Context, f fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	here := n.here
	now := here.now.Add(1)
	defer here.now.Add(-1)
	for most := here.most.Load(); now > most && !here.most.CompareAndSwap(most, now); most = here.most.Load() {
	}
	time.Sleep(here.trip)
	return f.(fs.FileReader).Read(ctx, dest, off)
}

// TestAhead reads a dataset that is 20 ms away, with hints and without.
func TestAhead(t *testing.T) {
	testenv.Slow(t)
	dataset := testmount.Generate(t, "-samples", "192", "-classes", "4", "-width", "96", "-height", "72", "-png-every", "6")
	there, most := far(t, dataset, 20*time.Millisecond)
	t.Log(run(t, "testdata/check_ahead.py", there, dataset))
	// Two workers without hints have two.
	if n := most.Load(); n < 8 {
		t.Errorf("%d round trips at once", n)
	}
}

// BenchmarkAhead reads photographs that are 20 ms away in shuffled order, by 2 workers.
func BenchmarkAhead(b *testing.B) {
	pictures := testenv.Shared(b, "imagenet/*")
	root := filepath.Join(b.TempDir(), "photos")
	for _, p := range pictures {
		class := filepath.Join(root, strings.Split(filepath.Base(p), "_")[0])
		testenv.Must(b, os.MkdirAll(class, 0o755))
		data, err := os.ReadFile(p)
		testenv.Must(b, err)
		testenv.Must(b, os.WriteFile(filepath.Join(class, filepath.Base(p)), data, 0o644))
	}
	there, _ := far(b, root, 20*time.Millisecond)
	for b.Loop() {
		fmt.Println(run(b, "testdata/bench_ahead.py", there))
	}
}
