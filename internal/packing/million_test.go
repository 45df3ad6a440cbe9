package packing

import (
	"context"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// small is made, of files of ten bytes.
type small struct{ made }

func (s small) Members(ctx context.Context, dir string, yield func(Entry, error) bool) bool {
	return s.made.Members(ctx, dir, func(e Entry, err error) bool {
		e.Identity.Size = 10
		return yield(e, err)
	})
}

func (small) Read(context.Context, store.SourceFile) ([]byte, error) {
	return []byte("0123456789"), nil
}

func (small) Copy(_ context.Context, _ store.SourceFile, w io.Writer) error {
	_, err := io.WriteString(w, "0123456789")
	return err
}

// Encode implements [store.Encoder].
func (small) Encode(_ context.Context, _ string, data []byte) (store.Encoded, error) {
	return store.Encoded{Representations: []store.EncodedRepresentation{{Key: transcode.Original, Split: transcode.Split{Data: data}}}}, nil
}

func (small) Current(*store.Sample) bool { return true }

// TestMillionCommit measures what a commit of 10,000 shards of 1,000 small files takes, where they are in order of
// paths and where they are shuffled.
func TestMillionCommit(t *testing.T) {
	if !testenv.Soak() {
		t.Skip("PIPEFS_SOAK=1 commits 10 million files")
	}
	for _, order := range []store.Order{store.OrderPath, store.OrderShuffle} {
		tree := small{made{dirs: 10_000, files: 1000}}
		m := making(t, tree)
		m.Options.Order, m.Options.RecordImages, m.Shards = order, 1000, 10_000
		p := mustMake(t, m)
		w := &Worker{
			Plan: p, Place: m.Place, Directory: tree, Encoder: tree, Verbatim: func(string, int64) bool { return false },
			Build: t.TempDir(), Options: store.PackOptions{Logger: quiet, Workers: 1}, Warn: func(string, error) {},
		}
		var all errgroup.Group
		all.SetLimit(4)
		for shard := range p.Shards {
			all.Go(func() error {
				_, err := w.Pack(t.Context(), shard)
				return err
			})
		}
		testenv.Must(t, all.Wait())
		debug.FreeOSMemory()
		testenv.Must(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
		began, busy := time.Now(), busyTime()
		r, err := commitPlan(t.Context(), p, m.Place.String(), 0, nil)
		testenv.Must(t, err)
		t.Logf("%s: %d files of %d shards: %v, %v of processors, peak RSS %d MB", order, r.Files, r.Shards, time.Since(began).Round(time.Second), (busyTime() - busy).Round(time.Second), peak(t)>>20)
		if n := peak(t); n > 512<<20 {
			t.Errorf("%d bytes of memory", n)
		}
		testenv.Must(t, os.RemoveAll(m.Place.String()))
		testenv.Proved(t, "names", r.Files)
	}
}

// TestMillionFiles measures what planning takes: ten times the files take no more memory, in directories
// of the same length.
func TestMillionFiles(t *testing.T) {
	if !testenv.Soak() {
		t.Skip("PIPEFS_SOAK=1 plans 10 million files")
	}
	for _, order := range []store.Order{store.OrderPath, store.OrderShuffle} {
		for _, dirs := range []int{1000, 10_000} {
			debug.FreeOSMemory()
			testenv.Must(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
			m := making(t, made{dirs: dirs, files: 1000})
			m.Options.Order, m.ShardBytes = order, 256e6
			began := time.Now()
			p := mustMake(t, m)
			t.Logf("%s: %d files, %d shards: plan of %d bytes, %v, peak RSS %d MB", order, p.Files, p.Shards, p.info.Size, time.Since(began).Round(time.Second), peak(t)>>20)
			if n := peak(t); n > 256<<20 {
				t.Errorf("%d bytes of memory", n)
			}
			if dirs == 10_000 {
				testenv.Proved(t, "names", p.Files)
			}
		}
	}
}

// peak is the most memory that this process had, in bytes.
func peak(t *testing.T) int64 {
	text, err := os.ReadFile("/proc/self/status")
	testenv.Must(t, err)
	kb, err := strconv.ParseInt(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)[1]), 10, 64)
	testenv.Must(t, err)
	return kb << 10
}

// busyTime is what processors have done for this process.
func busyTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
